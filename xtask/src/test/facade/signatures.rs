//! A walk over the JSON that rustdoc writes (<https://docs.rs/rustdoc-types>): what a crate shows, and what stands in the signatures of that.
//!
//! It is read as it comes, not into types of its own: of some sixty versions each was another, and what is looked for here has stood in all of them. A kind of
//! item that is not known is an error, and so is a walk that meets no name.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

/// What rustdoc says of some crates.
#[derive(Default)]
pub struct Documents(BTreeMap<String, Value>);

/// Where an item is defined, whatever shows it: the same in the documents of all crates. And its kind, since a macro may have a module's name.
type Name<'a> = (Vec<&'a str>, &'a str);

/// An item with the document that tells of it.
#[derive(Clone, Copy)]
struct Item<'a> {
    document: &'a Value,
    item: &'a Value,
}

impl Documents {
    /// # Errors
    /// For what is no JSON.
    pub fn add(&mut self, name: String, json: &[u8]) -> anyhow::Result<()> {
        self.0.insert(name, serde_json::from_slice(json)?);
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// A line for each name in a signature of what `facade` shows, outside of its module `without`, that it does not show.
    ///
    /// # Errors
    /// For JSON in which something is missing that was in all versions so far.
    pub fn unshown(&self, facade: &str, without: Option<&str>) -> anyhow::Result<BTreeSet<String>> {
        let document = self.0.get(facade).with_context(|| format!("there is no document of {facade}"))?;
        let mut walk = Walk { definitions: self.definitions()?, shown: BTreeSet::new(), modules: Vec::new() };
        let root = Item::find(document, &document["root"]).context("the facade has no root")?;
        for id in root.children()? {
            let is_left_out = without.is_some() && Item::find(document, id).is_some_and(|item| item.name() == without);
            if !is_left_out {
                walk.show(document, id)?;
            }
        }
        walk.unshown()
    }

    fn definitions(&self) -> anyhow::Result<HashMap<Name<'_>, Item<'_>>> {
        let mut definitions = HashMap::new();
        for document in self.0.values() {
            let index = document["index"].as_object().context("index")?;
            for (id, item) in index {
                if let Some(name) = named(document, id) {
                    definitions.insert(name, Item { document, item });
                }
            }
        }
        Ok(definitions)
    }
}

/// The name of what `document` calls `id`; none for what has none of its own, such as a field.
fn named<'a>(document: &'a Value, id: &str) -> Option<Name<'a>> {
    let summary = document["paths"].get(id)?;
    let path = summary["path"].as_array()?.iter().map(Value::as_str).collect::<Option<Vec<_>>>()?;
    Some((path, summary["kind"].as_str()?))
}

impl<'a> Item<'a> {
    fn find(document: &'a Value, id: &Value) -> Option<Self> {
        Some(Self { document, item: document["index"].get(id.to_string())? })
    }

    fn name(&self) -> Option<&'a str> {
        self.item["name"].as_str()
    }

    /// Its kind, and what there is to say of one.
    fn inner(&self) -> anyhow::Result<(&'a str, &'a Value)> {
        let inner = self.item["inner"].as_object().and_then(|inner| inner.iter().next());
        inner.map(|(kind, inner)| (kind.as_str(), inner)).with_context(|| format!("what kind of item is {}?", self.item))
    }

    /// What a glob takes from it.
    fn children(&self) -> anyhow::Result<impl Iterator<Item = &'a Value> + use<'a>> {
        let (_, inner) = self.inner()?;
        let list = ["items", "variants"].into_iter().find_map(|list| inner[list].as_array());
        Ok(list.context("a glob of what has no items")?.iter())
    }
}

struct Walk<'a> {
    definitions: HashMap<Name<'a>, Item<'a>>,
    shown: BTreeSet<Name<'a>>,
    /// Those that are shown whole, since a module may show one above itself.
    modules: Vec<&'a Value>,
}

impl<'a> Walk<'a> {
    fn show(&mut self, document: &'a Value, id: &Value) -> anyhow::Result<()> {
        if let Some(item) = Item::find(document, id)
            && let ("use", import) = item.inner()?
        {
            return self.import(document, import);
        }
        // Without a name it is what every program can name: a primitive type.
        let Some(name) = named(document, &id.to_string()) else { return Ok(()) };
        if name.1 != "module" {
            self.shown.insert(name);
            return Ok(());
        }
        self.all_of(document, id)
    }

    fn import(&mut self, document: &'a Value, import: &Value) -> anyhow::Result<()> {
        match import["is_glob"].as_bool().context("is_glob")? {
            false => self.show(document, &import["id"]),
            true => self.all_of(document, &import["id"]),
        }
    }

    /// Shows what is in a module or an enumeration, which may be a private one of the document, and so without a name.
    fn all_of(&mut self, document: &'a Value, id: &Value) -> anyhow::Result<()> {
        let named = || self.definitions.get(&named(document, &id.to_string())?).copied();
        let Some(item) = Item::find(document, id).or_else(named) else { bail!("what is shown whole is not ours: {id}") };
        if !self.modules.iter().any(|module| std::ptr::eq(*module, item.item)) {
            self.modules.push(item.item);
            for id in item.children()? {
                self.show(item.document, id)?;
            }
        }
        Ok(())
    }

    fn unshown(&self) -> anyhow::Result<BTreeSet<String>> {
        let mut signatures = Signatures { walk: self, names: 0, findings: BTreeSet::new() };
        for name in &self.shown {
            // What others define, they show.
            if let Some(item) = self.definitions.get(name) {
                signatures.read(*item, &name.0.join("::"))?;
            }
        }
        ensure!(signatures.names > 0, "no signature names anything: rustdoc's JSON is not what it was");
        Ok(signatures.findings)
    }

    /// Whether a program can name it: through the facade, or because every program can.
    fn is_shown(&self, name: &Name<'_>) -> bool {
        matches!(name.0[0], "std" | "core" | "alloc") || self.shown.contains(name)
    }
}

struct Signatures<'a, 'w> {
    walk: &'w Walk<'a>,
    /// How many were met.
    names: usize,
    findings: BTreeSet<String>,
}

impl<'a> Signatures<'a, '_> {
    /// Reads the signatures of an item and of all within it.
    fn read(&mut self, item: Item<'a>, place: &str) -> anyhow::Result<()> {
        let (kind, inner) = item.inner()?;
        let Item { document, .. } = item;
        match kind {
            "function" | "struct_field" | "constant" | "static" | "type_alias" | "assoc_type" | "assoc_const" => {
                self.names_in(document, inner, place);
            }
            "struct" | "union" => {
                self.names_in(document, &inner["generics"], place);
                let fields = if kind == "union" { inner } else { &inner["kind"] };
                self.fields(document, fields, place)?;
                self.implementations(document, &inner["impls"], place)?;
            }
            "enum" => {
                self.names_in(document, &inner["generics"], place);
                self.all(document, &inner["variants"], place)?;
                self.implementations(document, &inner["impls"], place)?;
            }
            "variant" => self.fields(document, &inner["kind"], place)?,
            "trait" => {
                self.names_in(document, &inner["generics"], place);
                self.names_in(document, &inner["bounds"], place);
                self.all(document, &inner["items"], place)?;
            }
            "macro" | "proc_macro" => {}
            kind => bail!("{place} is of a kind that is not known: {kind}"),
        }
        Ok(())
    }

    /// Reads items by their numbers. What is hidden from documents has none.
    fn all(&mut self, document: &'a Value, ids: &'a Value, place: &str) -> anyhow::Result<()> {
        let ids = ids.as_array().with_context(|| format!("the items of {place}"))?;
        for item in ids.iter().filter_map(|id| Item::find(document, id)) {
            self.read(item, &format!("{place}::{}", item.name().unwrap_or("_")))?;
        }
        Ok(())
    }

    /// Reads the fields of a structure or variant, which may have none, only types, or names as well.
    fn fields(&mut self, document: &'a Value, kind: &'a Value, place: &str) -> anyhow::Result<()> {
        let named = [kind, &kind["plain"], &kind["struct"]].into_iter().find_map(|kind| kind.get("fields"));
        if let Some(fields) = named.or_else(|| kind.get("tuple")) {
            return self.all(document, fields, place);
        }
        ensure!(matches!(kind.as_str(), Some("unit" | "plain")), "what fields has {place}? {kind}");
        Ok(())
    }

    /// Reads what was written for a type: its own functions, and of traits that can be named the arguments and the types.
    fn implementations(&mut self, document: &'a Value, ids: &'a Value, place: &str) -> anyhow::Result<()> {
        for id in ids.as_array().context("impls")? {
            let Some(item) = Item::find(document, id) else { continue };
            let (_, inner) = item.inner()?;
            let of = &inner["trait"];
            if inner["is_synthetic"] == true || !inner["blanket_impl"].is_null() {
                continue;
            }
            if of.is_null() {
                self.names_in(document, &inner["generics"], place);
                self.all(document, &inner["items"], place)?;
            } else if named(document, &of["id"].to_string()).is_some_and(|name| self.walk.is_shown(&name)) {
                self.names_in(document, &of["args"], place);
                self.types_of(document, &inner["items"], place)?;
            }
        }
        Ok(())
    }

    fn types_of(&mut self, document: &'a Value, ids: &Value, place: &str) -> anyhow::Result<()> {
        for item in ids.as_array().context("items")?.iter().filter_map(|id| Item::find(document, id)) {
            if let ("assoc_type", inner) = item.inner()? {
                self.names_in(document, inner, place);
            }
        }
        Ok(())
    }

    /// Notes each type and trait that stands in a part of a signature, however deep.
    fn names_in(&mut self, document: &'a Value, part: &'a Value, place: &str) {
        match part {
            Value::Array(parts) => parts.iter().for_each(|part| self.names_in(document, part, place)),
            Value::Object(parts) => {
                for (key, part) in parts {
                    if matches!(key.as_str(), "resolved_path" | "trait") && !part.is_null() {
                        self.note(document, part, place);
                    }
                    self.names_in(document, part, place);
                }
            }
            _ => {}
        }
    }

    fn note(&mut self, document: &'a Value, path: &'a Value, place: &str) {
        self.names += 1;
        let name = named(document, &path["id"].to_string());
        if name.as_ref().is_some_and(|name| self.walk.is_shown(name)) {
            return;
        }
        let name = name.map_or_else(|| path["path"].to_string(), |name| name.0.join("::"));
        self.findings.insert(format!("{place} names {name}, which the facade does not show\n"));
    }
}
