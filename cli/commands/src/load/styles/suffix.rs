//! Whole numbers as older programs take them, with a suffix for thousands and the like.

/// Reads a whole number with a suffix: of `K M G T` in powers of 1000, of `k m g t` in powers of 1024.
pub fn suffixed(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.chars().last().and_then(unit) {
        Some(unit) => (&text[..text.len() - 1], unit),
        None => (text, 1),
    };
    let wrong =
        || format!("{text:?} is not a whole number, with K, M, G or T (1000 each) or k, m, g or t (1024 each) behind it or not");
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(unit).ok_or_else(|| format!("{text:?} is over {}", u64::MAX))
}

fn unit(suffix: char) -> Option<u64> {
    let power = "kmgt".find(suffix.to_ascii_lowercase())? as u32 + 1;
    let base: u64 = if suffix.is_ascii_uppercase() { 1_000 } else { 1_024 };
    Some(base.pow(power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_decimal_in_upper_case_and_binary_in_lower_case() {
        let cases =
            [("0", 0), ("17", 17), ("9M", 9_000_000), ("64k", 65_536), ("2K", 2_000), ("1g", 1 << 30), ("3T", 3_000_000_000_000)];
        for (text, number) in cases {
            assert_eq!(suffixed(text), Ok(number), "{text}");
        }
        assert_eq!(suffixed(&u64::MAX.to_string()), Ok(u64::MAX));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in
            ["", "k", "-1", "+1", "1.5M", "1MM", "1x", "M1", " 1", "1\u{e9}", "18446744073709551616", "18446744073709551615k"]
        {
            let error = suffixed(text).expect_err(text);
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
