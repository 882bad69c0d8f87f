//! What an author of a program writes, and some programs together.

use crate::call::{Answered, Call};
use crate::error::Unanswered;
use corelane::Cx;
use corelane::service::Outcome;
use corelane_wire::rpc::{self, Refusal};
use std::any::Any;

/// A program: procedures by number, with typed arguments and results. One is built for each lane and transport: its state is the
/// lane's own, needs no `Send` and no lock.
pub trait Program: 'static {
    /// Its number, and the range of versions that it answers.
    const PROGRAM: rpc::Program;

    /// The lane turns for the first time.
    fn started(&mut self, _cx: &mut Cx<'_>) {}

    /// Carries a call out, or begins to ([`Call::hold`]). It is for this program and one of its versions, its credential was
    /// read, and it is not for procedure 0, which needs no program.
    ///
    /// # Errors
    /// A refusal to be sent; or [`Unanswered::Later`], if nothing was done yet.
    fn call(&mut self, cx: &mut Cx<'_>, call: Call<'_>) -> Result<Answered, Unanswered>;

    /// Whether this procedure must not be carried out twice: then its short replies are kept, and a call that is repeated gets
    /// the same reply again, or none while the first is in progress.
    fn is_once_only(&self, _version: u32, _procedure: u32) -> bool {
        false
    }

    /// An operation that the program started has ended. Its token's upper half is the program's number ([`token`](Self::token)).
    fn completed(&mut self, _cx: &mut Cx<'_>, _token: u32, _outcome: Outcome) {}

    /// Another lane sent a message; it is given back if it is not for this program.
    ///
    /// # Errors
    /// The message.
    fn lane_message(&mut self, _cx: &mut Cx<'_>, _from: usize, message: Box<dyn Any + Send>) -> Result<(), Box<dyn Any + Send>> {
        Err(message)
    }

    /// The token to start an operation with ([`Cx::open_file`] and the like), so that `completed` is called with `own`.
    fn token(own: u32) -> u64 {
        u64::from(Self::PROGRAM.number) << 32 | u64::from(own)
    }
}

/// Some programs that are served together: a tuple of one to four.
pub trait Programs: 'static {
    /// Checks that one of them is called, in a version that it answers.
    ///
    /// # Errors
    /// `PROG_UNAVAIL` or `PROG_MISMATCH` is owed.
    fn admit(&self, call: &rpc::Call<'_>) -> Result<(), Refusal>;

    /// [`Program::call`] of the one that is called.
    ///
    /// # Errors
    /// Its errors; as for [`Programs::admit`] if there is none.
    fn call(&mut self, cx: &mut Cx<'_>, call: Call<'_>) -> Result<Answered, Unanswered>;

    /// [`Program::is_once_only`] of the one that is called.
    fn is_once_only(&self, call: &rpc::Call<'_>) -> bool;

    /// [`Program::started`] of each.
    fn started(&mut self, cx: &mut Cx<'_>);

    /// [`Program::completed`] of the one that the token names.
    fn completed(&mut self, cx: &mut Cx<'_>, token: u64, outcome: Outcome);

    /// [`Program::lane_message`] of each, until one takes it. What none takes is dropped.
    fn lane_message(&mut self, cx: &mut Cx<'_>, from: usize, message: Box<dyn Any + Send>);
}

macro_rules! programs {
    ($first:ident $($type:ident)*, $($of:ident $index:tt)*) => {
        impl<$first: Program, $($type: Program),*> Programs for ($first, $($type),*) {
            #[inline]
            fn admit(&self, call: &rpc::Call<'_>) -> Result<(), Refusal> {
                $(if call.program == $type::PROGRAM.number {
                    return $type::PROGRAM.admit(call);
                })*
                $first::PROGRAM.admit(call)
            }

            #[inline]
            fn call(&mut self, cx: &mut Cx<'_>, call: Call<'_>) -> Result<Answered, Unanswered> {
                $(if call.program() == $of::PROGRAM.number {
                    return self.$index.call(cx, call);
                })*
                $first::PROGRAM.admit(&call.message)?;
                Err(call.procedure_unavailable())
            }

            fn is_once_only(&self, call: &rpc::Call<'_>) -> bool {
                $(if call.program == $of::PROGRAM.number {
                    return self.$index.is_once_only(call.version, call.procedure);
                })*
                false
            }

            fn started(&mut self, cx: &mut Cx<'_>) {
                $(self.$index.started(cx);)*
            }

            fn completed(&mut self, cx: &mut Cx<'_>, token: u64, outcome: Outcome) {
                let (number, own) = ((token >> 32) as u32, token as u32);
                $(if number == $of::PROGRAM.number {
                    return self.$index.completed(cx, own, outcome);
                })*
            }

            fn lane_message(&mut self, cx: &mut Cx<'_>, from: usize, message: Box<dyn Any + Send>) {
                $(let Err(message) = self.$index.lane_message(cx, from, message) else { return };)*
                drop(message);
            }
        }
    };
}

programs!(A, A 0);
programs!(A B, A 0 B 1);
programs!(A B C, A 0 B 1 C 2);
programs!(A B C D, A 0 B 1 C 2 D 3);
