//! What an author of a program writes, and some programs together.

use crate::call::{Answered, Call};
use crate::error::Unanswered;
use corelane::Cx;
use corelane::service::{Asking, Call as LaneCall, Lost, Origin, Outcome, Silent, Talk};
use corelane_wire::rpc::{self, Refusal};

/// The outcome of a question to another lane.
pub type Outcomes<T> = Result<<T as Talk>::Answer, Lost>;

/// A program: procedures by number, with typed arguments and results. One is built for each lane and transport: its state is the
/// lane's own, needs no `Send` and no lock.
///
/// `T` is what it says to itself on other lanes ([`Rpc::talking`](crate::Rpc::talking)): programs that are served together and talk have one such type
/// between them, and those that say nothing go with any if they are written for every `T`.
pub trait Program<T: Talk = Silent>: 'static {
    /// Its number, and the range of versions that it answers.
    const PROGRAM: rpc::Program;

    /// The lane turns for the first time.
    fn started(&mut self, _cx: &mut Cx<'_, T>) {}

    /// Carries a call out, or begins to ([`Call::hold`]). It is called once for each call that arrives, and only when that can be answered and held: the output has room (`output_high`), the lane has memory for
    /// a short reply and for what a held call keeps, and the connection a ticket (`requests_in_flight_max`). It is for this program and one of its versions, its credential was
    /// read, and it is not for procedure 0, which needs no program.
    ///
    /// # Errors
    /// A refusal to be sent.
    fn call(&mut self, cx: &mut Cx<'_, T>, call: Call<'_>) -> Result<Answered, Unanswered>;

    /// Whether this procedure must not be carried out twice: then its short replies are kept, and a call that is repeated gets
    /// the same reply again, or none while the first is in progress.
    fn is_once_only(&self, _version: u32, _procedure: u32) -> bool {
        false
    }

    /// An operation that the program started has ended. Its token's upper half is the program's number ([`token`](Self::token)).
    fn completed(&mut self, _cx: &mut Cx<'_, T>, _token: u32, _outcome: Outcome) {}

    /// The program was sent a message; it is given back if it is not for this program.
    ///
    /// # Errors
    /// The message.
    fn lane_message(&mut self, _cx: &mut Cx<'_, T>, _from: Origin, message: T::Message) -> Result<(), T::Message> {
        Err(message)
    }

    /// The program was asked a question, which is given back with its call if it is not for this program.
    ///
    /// # Errors
    /// Both.
    fn asked(
        &mut self,
        _cx: &mut Cx<'_, T>,
        _from: Origin,
        question: T::Question,
        call: LaneCall<T>,
    ) -> Result<(), (T::Question, LaneCall<T>)> {
        Err((question, call))
    }

    /// The outcome of a question, which is given back if another program has asked it.
    ///
    /// # Errors
    /// The outcome.
    fn replied(&mut self, _cx: &mut Cx<'_, T>, _asking: Asking, outcome: Outcomes<T>) -> Result<(), Outcomes<T>> {
        Err(outcome)
    }

    /// There is room again for what one of the programs was refused to say.
    fn room(&mut self, _cx: &mut Cx<'_, T>, _lane: usize) {}

    /// The token to start an operation with ([`Cx::open_file`] and the like), so that `completed` is called with `own`.
    fn token(own: u32) -> u64 {
        u64::from(Self::PROGRAM.number) << 32 | u64::from(own)
    }
}

/// Some programs that are served together: a tuple of one to four.
pub trait Programs<T: Talk = Silent>: 'static {
    /// Checks that one of them is called, in a version that it answers.
    ///
    /// # Errors
    /// `PROG_UNAVAIL` or `PROG_MISMATCH` is owed.
    fn admit(&self, call: &rpc::Call<'_>) -> Result<(), Refusal>;

    /// [`Program::call`] of the one that is called.
    ///
    /// # Errors
    /// Its errors; as for [`Programs::admit`] if there is none.
    fn call(&mut self, cx: &mut Cx<'_, T>, call: Call<'_>) -> Result<Answered, Unanswered>;

    /// [`Program::is_once_only`] of the one that is called.
    fn is_once_only(&self, call: &rpc::Call<'_>) -> bool;

    /// [`Program::started`] of each.
    fn started(&mut self, cx: &mut Cx<'_, T>);

    /// [`Program::completed`] of the one that the token names.
    fn completed(&mut self, cx: &mut Cx<'_, T>, token: u64, outcome: Outcome);

    /// [`Program::lane_message`] of each, until one takes it. What none takes is dropped, counted and told
    /// ([`Cx::drop_message`]). With the calls below it is dropped.
    fn lane_message(&mut self, cx: &mut Cx<'_, T>, from: Origin, message: T::Message);

    /// [`Program::asked`] of each, until one takes it.
    fn asked(&mut self, cx: &mut Cx<'_, T>, from: Origin, question: T::Question, call: LaneCall<T>);

    /// [`Program::replied`] of each, until one takes it.
    fn replied(&mut self, cx: &mut Cx<'_, T>, asking: Asking, outcome: Outcomes<T>);

    /// [`Program::room`] of each.
    fn room(&mut self, cx: &mut Cx<'_, T>, lane: usize);
}

macro_rules! programs {
    ($first:ident $($type:ident)*, $($of:ident $index:tt)*) => {
        impl<Talks: Talk, $first: Program<Talks>, $($type: Program<Talks>),*> Programs<Talks> for ($first, $($type),*) {
            #[inline]
            fn admit(&self, call: &rpc::Call<'_>) -> Result<(), Refusal> {
                $(if call.program == <$type as Program<Talks>>::PROGRAM.number {
                    return <$type as Program<Talks>>::PROGRAM.admit(call);
                })*
                <$first as Program<Talks>>::PROGRAM.admit(call)
            }

            #[inline]
            fn call(&mut self, cx: &mut Cx<'_, Talks>, call: Call<'_>) -> Result<Answered, Unanswered> {
                $(if call.program() == <$of as Program<Talks>>::PROGRAM.number {
                    return self.$index.call(cx, call);
                })*
                <$first as Program<Talks>>::PROGRAM.admit(&call.message)?;
                Err(call.procedure_unavailable())
            }

            fn is_once_only(&self, call: &rpc::Call<'_>) -> bool {
                $(if call.program == <$of as Program<Talks>>::PROGRAM.number {
                    return self.$index.is_once_only(call.version, call.procedure);
                })*
                false
            }

            fn started(&mut self, cx: &mut Cx<'_, Talks>) {
                $(self.$index.started(cx);)*
            }

            fn completed(&mut self, cx: &mut Cx<'_, Talks>, token: u64, outcome: Outcome) {
                let (number, own) = ((token >> 32) as u32, token as u32);
                $(if number == <$of as Program<Talks>>::PROGRAM.number {
                    return self.$index.completed(cx, own, outcome);
                })*
            }

            fn lane_message(&mut self, cx: &mut Cx<'_, Talks>, from: Origin, message: Talks::Message) {
                $(let Err(message) = self.$index.lane_message(cx, from, message) else { return };)*
                cx.drop_message(message);
            }

            fn asked(&mut self, cx: &mut Cx<'_, Talks>, from: Origin, question: Talks::Question, call: LaneCall<Talks>) {
                $(let Err((question, call)) = self.$index.asked(cx, from, question, call) else { return };)*
                drop((question, call));
            }

            fn replied(&mut self, cx: &mut Cx<'_, Talks>, asking: Asking, outcome: Outcomes<Talks>) {
                $(let Err(outcome) = self.$index.replied(cx, asking, outcome) else { return };)*
                drop(outcome);
            }

            fn room(&mut self, cx: &mut Cx<'_, Talks>, lane: usize) {
                $(self.$index.room(cx, lane);)*
            }
        }
    };
}

programs!(A, A 0);
programs!(A B, A 0 B 1);
programs!(A B C, A 0 B 1 C 2);
programs!(A B C D, A 0 B 1 C 2 D 3);
