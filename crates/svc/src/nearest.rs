//! What somebody may have meant who wrote a name that there is not.

/// From this similarity on (Jaro and Winkler's, from 0 to 1) a name is what may have been meant.
const SIMILAR: f64 = 0.8;

/// The question after the one of these names that is most like `word`, as it stands behind that word; nothing if none is like it.
///
/// ```
/// use corelane_svc::did_you_mean;
///
/// assert_eq!(did_you_mean("idle_limt", ["idle_limit", "read_limit"]), " (did you mean idle_limit?)");
/// assert_eq!(did_you_mean("colour", ["idle_limit", "read_limit"]), "");
/// ```
pub fn did_you_mean<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let likeness = |name: &'a str| (strsim::jaro_winkler(&word.to_lowercase(), &name.to_lowercase()), name);
    let nearest = names.into_iter().map(likeness).max_by(|one, other| one.0.total_cmp(&other.0));
    nearest.filter(|(likeness, _)| *likeness >= SIMILAR).map_or(String::new(), |(_, name)| format!(" (did you mean {name}?)"))
}
