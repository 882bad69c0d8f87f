//! stub
use corelane_seam::Bell;
use std::sync::Arc;
pub struct Tasks;
pub struct TaskId;
pub struct TasksFull;
impl Tasks {
    pub fn new(_m: usize, _b: Arc<dyn Bell>) -> Self {
        Tasks
    }
    pub fn spawn(&mut self, _f: std::pin::Pin<Box<dyn Future<Output = ()>>>) -> Result<TaskId, TasksFull> {
        Err(TasksFull)
    }
    pub fn run(&mut self, _n: usize, _p: &mut dyn FnMut(TaskId)) -> usize {
        0
    }
    pub fn has_woken(&self) -> bool {
        false
    }
    pub fn before_sleep(&mut self) -> bool {
        true
    }
    pub fn awake(&mut self) {}
}
