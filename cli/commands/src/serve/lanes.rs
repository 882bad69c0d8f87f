//! From flags to lanes that can be started.

use super::arguments::{Arguments, THE_ONE, UdpHash, Wish};
use anyhow::{Result, anyhow, bail};
use corelane::Lanes;
use corelane::admin::SteeringSettings;
use corelane::admin::rss::{Buckets, HashTypes, Key};
use corelane::lanes::{DriverChoice, DriverSettings};
use corelane::service::ARENA_BYTES_MAX;
use corelane::service::entry::find;
use corelane_load::amounts::{size_word, size_words};
use corelane_services as services;
use std::io::Read;
use std::path::PathBuf;

/// The lanes that these arguments ask for.
///
/// # Errors
/// What is wrong with them.
pub fn of(arguments: Arguments) -> Result<Lanes> {
    let driver: DriverChoice = arguments.driver.parse()?;
    let mut lanes = Lanes::per_core()
        .driver(driver)
        .join(arguments.join)
        .v6_only(arguments.v6_only)
        .own_descriptors(!arguments.share_descriptors)
        .steering(steering(&arguments)?)
        .driver_settings(driver_settings(&arguments))
        .spin(arguments.spin);
    if let Some(limit) = arguments.stall.0 {
        lanes = lanes.stall(limit);
    }
    if let Some(count) = arguments.lanes {
        lanes = lanes.lanes(count);
    }
    if let Some(process) = &arguments.take_over {
        lanes = lanes.take_over(page_of(process)?);
    }
    if let Some(bytes) = arguments.memory {
        lanes = lanes.memory_bytes(memory(bytes)?);
    }
    lanes = paged(lanes, arguments.huge_pages, arguments.locked_memory);
    if let Some(tasks) = arguments.tasks_max {
        lanes = lanes.tasks_max(tasks as usize);
    }
    if let Some(messages) = arguments.channel_messages {
        lanes = lanes.channel_messages(messages as usize);
    }
    if let Some(list) = &arguments.cpus {
        lanes = lanes.cpus(corelane::lanes::parse_cpus(list).map_err(|why| anyhow!("--cpus: {why}"))?);
    }
    lanes = arguments.packet.into_iter().fold(lanes, Lanes::packet);
    lanes = receiving(lanes, &arguments.receive_threads, arguments.user_frac);
    let mut services = arguments.services;
    if services.is_empty() {
        services = defaults();
    }
    services.iter().try_fold(lanes, |lanes, text| add(lanes, text, &arguments.limits))
}

/// With the pages that are wished for, or required.
fn paged(lanes: Lanes, huge: Wish, locked: Wish) -> Lanes {
    let [(huge, no_other), (locked, no_unlocked)] = [huge, locked].map(|wish| (wish != Wish::Off, wish == Wish::Required));
    lanes.huge_pages(huge).require_huge_pages(no_other).locked_memory(locked).require_locked_memory(no_unlocked)
}

/// With the kernel's receiving of these interfaces kept to what the user fraction, in per cent, leaves it.
fn receiving(lanes: Lanes, interfaces: &[String], user_fraction: u8) -> Lanes {
    interfaces.iter().fold(lanes.user_fraction(user_fraction), |lanes, name| lanes.receive_threads(name))
}

/// What a lane's driver has at once, as far as it is asked for.
fn driver_settings(arguments: &Arguments) -> DriverSettings {
    let default = DriverSettings::new();
    DriverSettings::new()
        .offload_threads(arguments.offload_threads.map_or(default.offload_threads, usize::from))
        .offload_max(arguments.offload_max.map_or(default.offload_max, |calls| calls as usize))
        .watches_max(arguments.watches_max.map_or(default.watches_max, |directories| directories as usize))
        .pipes_max(arguments.pipes_max.map_or(default.pipes_max, |pipes| pipes as usize))
        .bridged_pairs_max(arguments.bridged_pairs_max.map_or(default.bridged_pairs_max, |pairs| pairs as usize))
        .zero_copy_bytes(arguments.zero_copy.map_or(default.zero_copy_bytes, |bytes| bytes as usize))
}

/// The page of the process that is taken over from.
fn page_of(process: &str) -> Result<PathBuf> {
    let pid = match process {
        THE_ONE => None,
        pid => Some(pid.parse().map_err(|_| anyhow!("--take-over: {pid:?} is not the number of a process"))?),
    };
    let page = crate::rss::page(pid);
    Ok(page.map_err(|error| anyhow!("--take-over: {}", error.to_string().replace("--pid", "--take-over=PID")))?.path)
}

fn steering(arguments: &Arguments) -> Result<SteeringSettings> {
    let types = match arguments.udp_hash {
        UdpHash::Four => HashTypes::ALL,
        UdpHash::Two => HashTypes::DEFAULT,
    };
    let buckets = arguments.buckets.map(Buckets::new).transpose().map_err(|error| anyhow!("--buckets: {error}"))?;
    let settings = SteeringSettings::default().by(arguments.steering.parse()?).key(key(&arguments.key)?).types(types);
    Ok(buckets.map_or(settings, |buckets| settings.buckets(buckets)))
}

/// Bytes of a random key, as most devices have them.
const KEY_BYTES: usize = 40;

fn key(text: &str) -> Result<Key> {
    let key = match text {
        "default" => Ok(Key::MICROSOFT),
        "random" => {
            let mut words = [0; 1 << 10];
            let read = std::fs::File::open("/dev/urandom").and_then(|mut entropy| entropy.read_exact(&mut words));
            read.map_err(|error| anyhow!("--key: /dev/urandom: {error}"))?;
            let mut words = words.chunks_exact(size_of::<u64>());
            // More than all draws take; a key of zeros would be refused.
            Key::random(KEY_BYTES, || words.next().and_then(|word| word.try_into().ok()).map_or(0, u64::from_ne_bytes))
        }
        bytes => bytes.parse(),
    };
    key.map_err(|error| anyhow!("--key: {error}"))
}

/// The least memory that a lane can work with.
const MEMORY_BYTES_MIN: usize = 4 << 20;

fn memory(bytes: u64) -> Result<usize> {
    match usize::try_from(bytes) {
        Ok(bytes) if (MEMORY_BYTES_MIN..=ARENA_BYTES_MAX).contains(&bytes) => Ok(bytes),
        _ => {
            let [least, most] = [MEMORY_BYTES_MIN, ARENA_BYTES_MAX].map(|bytes| size_word(bytes as u64));
            bail!("--memory: a lane cannot work with {}: use {least} to {most}, such as 64MiB", size_words(bytes))
        }
    }
}

/// The services that are served by default on loopback; IPv6 only where the machine has it.
fn defaults() -> Vec<String> {
    let hosts = ["127.0.0.1", "[::1]"];
    let usable = |host: &&str| corelane::lanes::can_listen(&format!("udp://{host}:0"));
    let places = |host: &'static str| {
        services::ALL
            .iter()
            .flat_map(move |entry| entry.default_urls(host).into_iter().map(|url| format!("{}={url}", entry.name())))
    };
    hosts.into_iter().filter(usable).flat_map(places).collect()
}

/// Adds what `SERVICE=URL` asks for.
fn add(lanes: Lanes, text: &str, limits: &[String]) -> Result<Lanes> {
    let (entry, place) = find(services::ALL, text)?;
    let mut set = entry.default_limits();
    for limit in limits {
        set.set(limit).map_err(|why| anyhow!("--limit: {why}"))?;
    }
    Ok(lanes.limits(set).serve_entry(entry, place)?)
}
