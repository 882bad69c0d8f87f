//! A service that declares itself: options behind its URL, limits and counters of its own. It sells apples, `N` and a line feed at a time, and says
//! what they cost. Started as `shop 'tcp://127.0.0.1:7007?price=30&stock=500'`; `corelane stat` shows what it counts.
use corelane::service::entry::choice::{Choice, Number, OneOf};
use corelane::service::entry::{Asked, Entry, Scheme};
use corelane::service::{Declaration, OwnCounter};
use corelane::{Cx, Input, Lanes, Next, Output, Peer, Result, Silent, StreamService, counters};

counters! {
    /// What the shop counts.
    pub enum Sold {
        Apples "apples_sold" Counter "apples" "Apples that were sold.";
        Refused "orders_refused" Counter "requests" "Orders for more apples than there are, and lines that are no number.";
        Left "apples_left" Gauge "apples" "Apples that are left.";
    }
}

const PRICE: Number = Number::new("price", "cents", "what an apple costs").between(1, 1_000, 25);
const STOCK: Number = Number::new("stock", "apples", "how many each lane has to sell").between(0, 1 << 40, 1_000);
const MONEY: OneOf = OneOf::new("money", "UNIT", &["cents", "euros"], "in what an answer says what apples cost");

/// Bytes that an answer has at the most: the product of two numbers, and a line feed.
const ANSWER_BYTES: usize = 32;

/// The shop's entry.
pub static SHOP: Entry = Entry::new("shop", "sells apples", &[Scheme::connections::<Shop>("tcp", 7007, open)])
    .options(&[Choice::Number(PRICE), Choice::Number(STOCK), Choice::OneOf(MONEY)])
    .limits(|limits| limits.record_max = 64)
    .by_default();

fn open(lanes: Lanes, asked: &Asked) -> Result<Lanes> {
    let (price, left) = (asked.chosen().number(&PRICE), asked.chosen().number(&STOCK));
    let in_euros = asked.chosen().one_of(&MONEY) == "euros";
    lanes.serve(&asked.url().to_string(), move |_lane| Shop { in_euros, ..Shop::new(price, left) })
}

/// A lane's apples.
pub struct Shop {
    price: u64,
    left: u64,
    in_euros: bool,
}

impl Shop {
    /// A shop with so many apples at so many cents.
    pub fn new(price: u64, left: u64) -> Self {
        Self { price, left, in_euros: false }
    }

    fn sell(&mut self, cx: &mut Cx, line: &str) -> String {
        match line.trim().parse::<u64>() {
            Ok(apples) if apples <= self.left => {
                self.left -= apples;
                cx.count(Sold::Apples, apples as usize);
                cx.set_gauge(Sold::Left, self.left);
                let cents = apples * self.price;
                if self.in_euros { format!("{}.{:02}\n", cents / 100, cents % 100) } else { format!("{cents}\n") }
            }
            _ => {
                cx.count(Sold::Refused, 1);
                "no\n".to_owned()
            }
        }
    }
}

impl StreamService for Shop {
    type Talk = Silent;
    type Session = ();

    const COUNTERS: &'static [Declaration] = Sold::DECLARED;

    fn started(&mut self, cx: &mut Cx) {
        cx.set_gauge(Sold::Left, self.left);
    }

    fn open(&mut self, _cx: &mut Cx, _peer: &Peer) {}

    fn receive(&mut self, cx: &mut Cx, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
        while output.ask_room()
            && let Some(end) = input.position(b'\n')
        {
            let Some(line) = input.contiguous(end + 1) else { break };
            // What is sold is sold: so its memory is there before.
            let Ok(mut answer) = cx.lease(ANSWER_BYTES) else { break };
            answer.append(self.sell(cx, &String::from_utf8_lossy(line)).as_bytes());
            output.push(answer.share());
            input.skip(end + 1);
            cx.count_requests(1);
        }
        Next::Continue
    }
}

fn main() -> Result<()> {
    let place = std::env::args().nth(1).unwrap_or_else(|| "tcp://127.0.0.1".to_owned());
    Lanes::per_core().serve_entry(&SHOP, &place)?.run()
}
