//! The controller as it is described, item by item, written apart from the product: one function over integers.

/// All there is, in the manner of C.
#[derive(Clone, Debug)]
pub struct Model {
    pub hz: i64,
    pub user_frac: i64,
    pub burst_max: i64,
    pub each_burst: i64,
    pub reg_frac: i64,
    pub burst: i64,
    pub residual: i64,
    pub reg_frac_count: i64,
    pub idle_poll: i64,
    pub short_ticks: i64,
    pub lost_polls: i64,
    pub pending: i64,
    pub stalled: i64,
    pub suspect: i64,
    pub phase: i64,
    pub handlers: i64,
    pub last: u64,
    pub start: u64,
}

pub const DEFAULT: Model = Model {
    hz: 1000,
    user_frac: 50,
    burst_max: 150,
    each_burst: 5,
    reg_frac: 20,
    burst: 5,
    residual: 0,
    reg_frac_count: 0,
    idle_poll: 0,
    short_ticks: 0,
    lost_polls: 0,
    pending: 0,
    stalled: 0,
    suspect: 0,
    phase: 0,
    handlers: 0,
    last: 0,
    start: 0,
};

// tidy: allow(tick) the original's word: it is the clock's
pub const TICK: u8 = 0;
pub const POLL: u8 = 1;
pub const END: u8 = 2;
pub const USER_FRAC: u8 = 3;
pub const BURST_MAX: u8 = 4;
pub const EACH_BURST: u8 = 5;
pub const REG_FRAC: u8 = 6;
pub const IDLE_POLL: u8 = 7;
pub const REGISTER: u8 = 8;
pub const REMOVE: u8 = 9;
pub const IDLE: u8 = 10;

/// One event at a time, or a knob and its value. Returns: TICK and END, whether a poll is scheduled; POLL, the frames, negative with a look at the status; a knob, whether it is taken; IDLE, the frames, 0 for none.
#[rustfmt::skip]
#[allow(clippy::manual_range_contains)] // in the manner of C
pub fn step(m: &mut Model, event: u8, argument: i64, now: u64) -> i64 {
    let int = |wide: i64| (wide as u64 & 0xffff_ffff) as u32 as i32 as i64;
    let mut answer = 0;
    match event {
        TICK => if m.handlers != 0 {
            let since = int(int(now.wrapping_sub(m.last) as i64) * m.hz);
            if since < 500_000 { m.short_ticks += 1; }
            if since >= 500_000 { m.last = now; }
            if m.pending > 100 { m.stalled += 1; m.pending = 0; m.phase = 0; }
            if m.phase == 1 || m.phase == 2 { m.suspect += 1; }
            if m.phase < 3 { m.phase = 2; answer = 1; }
            if m.pending != 0 { m.lost_polls += 1; }
            m.pending += 1;
        },
        POLL => {
            m.phase = 4;
            let first = m.residual == 0;
            if first { m.start = now; m.residual = m.burst; m.reg_frac_count += 1; }
            answer = if m.each_burst < m.residual { m.each_burst } else { m.residual };
            m.residual -= answer;
            if first && m.reg_frac_count >= m.reg_frac { m.reg_frac_count = 0; answer = -answer; }
        },
        END => if m.residual != 0 { m.phase = 5; answer = 1; } else {
            let load = int(int(now.wrapping_sub(m.start) as i64) * m.hz) / 10_000;
            m.burst += if load + m.user_frac > 100 { -1 } else { 1 };
            if m.burst == 0 { m.burst = 1; }
            if m.burst > m.burst_max { m.burst = m.burst_max; }
            if m.pending != 0 { m.pending -= 1; }
            m.phase = 0;
            if m.pending != 0 {
                m.burst -= m.burst >> 3;
                if m.burst == 0 { m.burst = 1; }
                m.phase = 6;
                answer = 1;
            }
        },
        USER_FRAC => if argument >= 0 && argument <= 99 { m.user_frac = argument; answer = 1; },
        BURST_MAX => if argument >= 10 && argument <= 20_000 {
            m.burst_max = argument;
            if m.each_burst > argument { m.each_burst = 10; }
            if m.burst > argument { m.burst = argument; }
            answer = 1;
        },
        EACH_BURST => if argument >= 1 && argument <= m.burst_max { m.each_burst = argument; answer = 1; },
        REG_FRAC => if argument >= 1 && argument <= m.hz {
            m.reg_frac = argument;
            if m.reg_frac_count >= argument { m.reg_frac_count = 0; }
            answer = 1;
        },
        IDLE_POLL => if argument == 0 || argument == 1 { m.idle_poll = argument; answer = 1; },
        REGISTER => m.handlers += 1,
        REMOVE => m.handlers -= 1,
        IDLE => if m.idle_poll != 0 && m.handlers != 0 { answer = m.each_burst; },
        _ => unreachable!(),
    }
    answer
}
