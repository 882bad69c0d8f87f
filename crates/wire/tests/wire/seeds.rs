//! The seeds of the fuzz targets, `fuzz/seeds/TARGET/NAME`: the published vectors and the samples, as files.
//!
//! `CORELANE_WRITE_SEEDS=1` writes them anew.

use crate::parsers;
use crate::samples::{self, Sample};
use crate::vectors;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds")
}

fn expected() -> BTreeMap<String, Vec<u8>> {
    let file = |Sample { parser, name, bytes }: Sample| (format!("{parser}/{name}"), bytes);
    let mut files: BTreeMap<_, _> = samples::all().into_iter().map(file).collect();
    for (what, stream) in vectors::all() {
        let name = what.replace([' ', ','], "-");
        let parser = if what.starts_with("call") { "call" } else { "reply" };
        files.insert(format!("{parser}/vector-{name}"), stream[4..].to_vec());
        files.insert(format!("record/vector-{name}"), stream);
    }
    files
}

fn found() -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for (target, _) in parsers::ALL {
        for entry in fs::read_dir(folder().join(target)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            files.insert(format!("{target}/{name}"), fs::read(&path).unwrap());
        }
    }
    files
}

fn write(files: &BTreeMap<String, Vec<u8>>) {
    for (name, bytes) in files {
        let path = folder().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// The seeds of each target.
pub fn by_target() -> BTreeMap<String, Vec<Vec<u8>>> {
    let mut seeds: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for (name, bytes) in found() {
        let (target, _) = name.split_once('/').unwrap();
        seeds.entry(target.to_owned()).or_default().push(bytes);
    }
    seeds
}

#[test]
fn the_seeds_are_the_vectors_and_the_samples() {
    let expected = expected();
    if std::env::var_os("CORELANE_WRITE_SEEDS").is_some() {
        write(&expected);
    }
    let found = found();
    for (name, bytes) in &expected {
        assert_eq!(found.get(name), Some(bytes), "{name}: write it anew with CORELANE_WRITE_SEEDS=1");
    }
    assert_eq!(found.len(), expected.len(), "files that are no seeds: {:?}", found.keys().filter(|k| !expected.contains_key(*k)));
}

#[test]
fn every_target_has_a_program() {
    let manifest = fs::read_to_string(folder().join("../Cargo.toml")).unwrap();
    for (target, _) in parsers::ALL {
        assert!(manifest.contains(&format!("name = \"{target}\"")), "{target}");
        let program = fs::read_to_string(folder().join(format!("../fuzz_targets/{target}.rs"))).unwrap();
        assert!(program.contains(&format!("parsers::{target}(")), "{target}");
    }
}
