//! Amounts as people write them: times, sizes and rates.

pub use corelane::service::entry::choice::{size, size_word, size_words, time};

/// Reads a number a second: `10000`, `10k`, `1.5M`.
///
/// # Errors
/// That it is none, and what to write.
pub fn rate(text: &str) -> Result<f64, String> {
    let (number, times) = match text.char_indices().last() {
        Some((end, 'k')) => (&text[..end], 1e3),
        Some((end, 'M')) => (&text[..end], 1e6),
        _ => (text, 1.0),
    };
    let number: Result<f64, _> = number.parse();
    number
        .map(|number| number * times)
        .map_err(|_| format!("{text:?} is no number a second: write one such as 10000, 10k (thousands) or 1.5M (millions)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_may_be_in_thousands_and_millions() {
        for (text, number) in
            [("1", 1.0), ("0.5", 0.5), ("10k", 10_000.0), ("1.5M", 1_500_000.0), ("1e3", 1_000.0), ("-1k", -1_000.0)]
        {
            assert_eq!(rate(text), Ok(number), "{text}");
        }
        for text in ["", "k", "M", "10K", "10m", "1kk", "many", "10 k"] {
            let error = rate(text).expect_err(text);
            assert!(error.contains(&format!("{text:?} is no number a second")) && error.contains("10k"), "{error}");
        }
    }
}
