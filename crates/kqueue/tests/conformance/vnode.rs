//! EVFILT_VNODE.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::time::UNIX_EPOCH;

use crate::numbers::*;
use crate::rig::*;
use crate::{Case, case};

/// Every note.
const ALL: u32 = 0xfff & !0x40;

pub const CASES: &[Case] = &[
    case("a file that nobody touches is silent", "Q-16", |q| on_file(q, ALL, |_, _| q.silent())),
    case("a removed file is told", "Q-16", |q| {
        told(q, NOTE_DELETE, |folder, _| fs::remove_file(folder.path("a")).unwrap());
    }),
    case("a removed name of a file that has another is no end", "Q-16", |q| {
        on_file(q, NOTE_DELETE, |folder, _| {
            fs::hard_link(folder.path("a"), folder.path("b")).unwrap();
            fs::remove_file(folder.path("a")).unwrap();
            q.silent();
            fs::remove_file(folder.path("b")).unwrap();
            assert_eq!(q.wait().fflags, NOTE_DELETE);
        });
    }),
    case("a file that another replaces is an end", "Q-16", |q| {
        told(q, NOTE_DELETE, |folder, _| {
            fs::write(folder.path("b"), b"new").unwrap();
            fs::rename(folder.path("b"), folder.path("a")).unwrap();
        });
    }),
    case("a write is told", "Q-16", |q| told(q, NOTE_WRITE, |folder, _| rewrite(folder, b"x"))),
    case("a write through the watched descriptor is told", "Q-16", |q| {
        told(q, NOTE_WRITE, |_, file| put(file, b"x"));
    }),
    case("a cut is told as a write", "Q-16", |q| {
        told(q, NOTE_WRITE, |folder, _| open_to_write(folder).set_len(1).unwrap());
    }),
    case("growth is told", "Q-16", |q| told(q, NOTE_EXTEND, |folder, _| append(folder))),
    case("growth is a write too", "Q-16", |q| {
        on_file(q, NOTE_EXTEND | NOTE_WRITE, |folder, _| {
            append(folder);
            assert_eq!(q.wait().fflags, NOTE_EXTEND | NOTE_WRITE);
        });
    }),
    case("a write in its middle is no growth", "Q-16", |q| {
        on_file(q, NOTE_EXTEND, |folder, _| {
            rewrite(folder, b"x");
            q.silent();
        });
    }),
    case("a change of mode is told", "Q-16", |q| told(q, NOTE_ATTRIB, |folder, _| set_mode(folder, 0o600))),
    case("a change of times is told", "Q-16", |q| {
        let times = fs::FileTimes::new().set_accessed(UNIX_EPOCH).set_modified(UNIX_EPOCH);
        told(q, NOTE_ATTRIB, |_, file| file.set_times(times).unwrap());
    }),
    case("a write is no change of mode", "Q-16", |q| {
        on_file(q, NOTE_ATTRIB, |folder, _| {
            rewrite(folder, b"x");
            q.silent();
        });
    }),
    case("a new name is told", "Q-16", |q| {
        told(q, NOTE_LINK, |folder, _| fs::hard_link(folder.path("a"), folder.path("b")).unwrap());
    }),
    case("a name less is told", "Q-16", |q| {
        let folder = Folder::new();
        let file = folder.file("a", b"abc");
        fs::hard_link(folder.path("a"), folder.path("b")).unwrap();
        q.set(&[ev(id(&file), VNODE, ADD | CLEAR).notes(NOTE_LINK)]);
        fs::remove_file(folder.path("b")).unwrap();
        assert_eq!(q.wait().fflags, NOTE_LINK);
    }),
    case("a change of mode is no change of names", "Q-16", |q| {
        on_file(q, NOTE_LINK, |folder, _| {
            set_mode(folder, 0o600);
            q.silent();
        });
    }),
    case("a new name for the file is told", "Q-16", |q| {
        told(q, NOTE_RENAME, |folder, _| fs::rename(folder.path("a"), folder.path("c")).unwrap());
    }),
    case("a renamed file is still watched", "Q-16", |q| {
        on_file(q, NOTE_RENAME | NOTE_WRITE, |folder, file| {
            fs::rename(folder.path("a"), folder.path("c")).unwrap();
            assert_eq!(q.wait().fflags, NOTE_RENAME);
            put(file, b"x");
            assert_eq!(q.wait().fflags, NOTE_WRITE);
        });
    }),
    case("an open is told", "Q-16", |q| told(q, NOTE_OPEN, |folder, _| drop(File::open(folder.path("a")).unwrap()))),
    case("a close by a reader is told", "Q-16", |q| {
        told(q, NOTE_CLOSE, |folder, _| drop(File::open(folder.path("a")).unwrap()));
    }),
    case("a close by a writer is told", "Q-16", |q| {
        told(q, NOTE_CLOSE_WRITE, |folder, _| drop(open_to_write(folder)));
    }),
    case("a close by a reader is none by a writer", "Q-16", |q| {
        on_file(q, NOTE_CLOSE_WRITE, |folder, _| {
            drop(File::open(folder.path("a")).unwrap());
            q.silent();
        });
    }),
    case("a read is told", "Q-16", |q| {
        told(q, NOTE_READ, |folder, _| {
            let mut text = String::new();
            File::open(folder.path("a")).unwrap().read_to_string(&mut text).unwrap();
        });
    }),
    case("only what was asked for is told", "Q-16", |q| {
        on_file(q, NOTE_DELETE, |folder, _| {
            rewrite(folder, b"x");
            set_mode(folder, 0o600);
            q.silent();
        });
    }),
    case("notes gather until they are told", "Q-16", |q| {
        on_file(q, NOTE_WRITE | NOTE_ATTRIB | NOTE_RENAME, |folder, _| {
            rewrite(folder, b"x");
            set_mode(folder, 0o600);
            fs::rename(folder.path("a"), folder.path("c")).unwrap();
            assert_eq!(q.wait().fflags, NOTE_WRITE | NOTE_ATTRIB | NOTE_RENAME);
            q.silent();
        });
    }),
    case("several changes that are told together are told each", "Q-16", |q| {
        type Act = fn(&Folder);
        let acts: [(u32, Act); 3] = [
            (NOTE_WRITE | NOTE_EXTEND, append),
            (NOTE_LINK, |folder| fs::hard_link(folder.path("a"), folder.path("b")).unwrap()),
            (NOTE_ATTRIB, |folder| set_mode(folder, 0o600)),
        ];
        for first in 0..3 {
            for second in (0..3).filter(|second| *second != first) {
                let notes = acts.iter().fold(0, |all, (notes, _)| all | notes);
                let other = Queue::new();
                on_file(&other, notes, |folder, _| {
                    acts[first].1(folder);
                    acts[second].1(folder);
                    let (expected, told) = (acts[first].0 | acts[second].0, other.wait().fflags);
                    assert_eq!(told & expected, expected, "{first} and {second}");
                });
            }
        }
        q.silent();
    }),
    case("what was before a file was registered is told to nobody", "Q-16", |q| {
        let folder = Folder::new();
        let file = folder.file("a", b"abc");
        q.set(&[ev(id(&file), VNODE, ADD | CLEAR).notes(NOTE_WRITE)]);
        fs::hard_link(folder.path("a"), folder.path("b")).unwrap();
        q.set(&[ev(id(&file), VNODE, ADD | CLEAR).notes(NOTE_LINK | NOTE_ATTRIB)]);
        set_mode(&folder, 0o600);
        assert_eq!(q.wait().fflags, NOTE_ATTRIB);
    }),
    case("what the kernel drops of a flood is told all the same", "Q-16", |q| {
        on_file(q, NOTE_LINK | NOTE_EXTEND, |folder, file| {
            let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
            // Two changes that follow one another and are the same are one to the kernel.
            for round in 0..=limit.trim().parse::<u32>().unwrap() / 2 {
                file.set_permissions(fs::Permissions::from_mode(0o600 | round & 1)).unwrap();
                std::os::unix::fs::FileExt::write_at(file, b"x", 0).unwrap();
            }
            append(folder);
            fs::hard_link(folder.path("a"), folder.path("b")).unwrap();
            let mut told = 0;
            while told != NOTE_LINK | NOTE_EXTEND {
                told |= q.wait().fflags;
            }
        });
    }),
    case("a file whose inode is used again is another", "Q-16", |q| {
        let folder = Folder::new();
        for round in 0..20 {
            let file = folder.file("a", b"abc");
            q.set(&[ev(id(&file), VNODE, ADD | CLEAR).notes(NOTE_WRITE).tag(round)]);
            rewrite(&folder, b"x");
            assert_eq!((tag(&q.wait()), q.now().len()), (round, 0));
            fs::remove_file(folder.path("a")).unwrap();
            close_unseen(std::os::fd::IntoRawFd::into_raw_fd(file));
        }
    }),
    case("a file that was cut short is told", "Q-16", |q| {
        told(q, NOTE_TRUNCATE, |folder, _| open_to_write(folder).set_len(1).unwrap());
        on_file(q, NOTE_TRUNCATE, |folder, _| {
            append(folder);
            q.silent();
        });
    }),
    case("a named pipe is a file, too, and one without a name is not", "Q-16", |q| {
        let folder = Folder::new();
        nix::unistd::mkfifo(&folder.path("a"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let file = File::options().read(true).write(true).open(folder.path("a")).unwrap();
        q.set(&[ev(id(&file), VNODE, ADD | CLEAR).notes(NOTE_ATTRIB | NOTE_DELETE), ev(id(&file), READ, ADD)]);
        set_mode(&folder, 0o600);
        assert_eq!((q.wait().fflags, q.now().len()), (NOTE_ATTRIB, 0));
        put(&file, b"abc");
        assert_eq!((q.wait().filter, q.wait().data), (READ, 3));
        fs::remove_file(folder.path("a")).unwrap();
        assert_eq!(q.until(|event| event.filter == VNODE).fflags & NOTE_DELETE, NOTE_DELETE);
        let (read, _write) = pipe();
        assert_eq!(q.change(ev(id(&read), VNODE, ADD).notes(NOTE_ATTRIB)), Err(libc::EINVAL));
    }),
    case("a device is a file, too", "Q-16", |q| {
        let terminal = nix::pty::openpty(None, None).unwrap();
        q.set(&[ev(id(&terminal.slave), VNODE, ADD | CLEAR).notes(NOTE_ATTRIB)]);
        q.silent();
        nix::sys::stat::fchmod(&terminal.slave, nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert_eq!((q.wait().fflags, q.now().len()), (NOTE_ATTRIB, 0));
    }),
    case("a symbolic link is watched for itself", "Q-16", |q| {
        use nix::fcntl::OFlag;
        let folder = Folder::new();
        folder.file("a", b"abc");
        std::os::unix::fs::symlink("a", folder.path("link")).unwrap();
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let link = nix::fcntl::open(&folder.path("link"), flags, nix::sys::stat::Mode::empty()).unwrap();
        q.set(&[ev(id(&link), VNODE, ADD | CLEAR).notes(NOTE_RENAME | NOTE_DELETE | NOTE_ATTRIB | NOTE_WRITE)]);
        append(&folder);
        q.silent();
        fs::rename(folder.path("link"), folder.path("other")).unwrap();
        assert_eq!(q.wait().fflags, NOTE_RENAME);
        fs::remove_file(folder.path("other")).unwrap();
        assert_eq!(q.wait().fflags & NOTE_DELETE, NOTE_DELETE);
    }),
    case("CLEAR forgets what was told", "Q-16", |q| {
        on_file(q, NOTE_WRITE | NOTE_ATTRIB, |folder, _| {
            rewrite(folder, b"x");
            assert_eq!(q.wait().fflags, NOTE_WRITE);
            set_mode(folder, 0o600);
            assert_eq!(q.wait().fflags, NOTE_ATTRIB);
        });
    }),
    case("without CLEAR notes stay", "Q-16", |q| {
        let folder = Folder::new();
        let file = folder.file("a", b"abc");
        q.set(&[ev(id(&file), VNODE, ADD).notes(NOTE_WRITE | NOTE_ATTRIB)]);
        rewrite(&folder, b"x");
        assert_eq!(q.wait().fflags, NOTE_WRITE);
        assert_eq!(q.wait().fflags, NOTE_WRITE);
        set_mode(&folder, 0o600);
        q.until(|event| event.fflags == NOTE_WRITE | NOTE_ATTRIB);
    }),
    case("ONESHOT of a file is told once", "Q-08", |q| {
        let folder = Folder::new();
        let file = folder.file("a", b"abc");
        q.set(&[ev(id(&file), VNODE, ADD | ONESHOT).notes(NOTE_WRITE)]);
        rewrite(&folder, b"x");
        q.wait();
        rewrite(&folder, b"y");
        q.silent();
        assert_eq!(q.change(ev(id(&file), VNODE, DELETE)), Err(libc::ENOENT));
    }),
    case("DISPATCH of a file waits for ENABLE", "Q-08", |q| {
        let folder = Folder::new();
        let file = folder.file("a", b"abc");
        q.set(&[ev(id(&file), VNODE, ADD | CLEAR | DISPATCH).notes(NOTE_WRITE)]);
        rewrite(&folder, b"x");
        q.wait();
        rewrite(&folder, b"y");
        q.silent();
        q.set(&[ev(id(&file), VNODE, ENABLE)]);
        assert_eq!(q.wait().fflags, NOTE_WRITE);
    }),
    case("a disabled file is told once enabled", "Q-07", |q| {
        on_file(q, NOTE_WRITE, |folder, file| {
            q.set(&[ev(id(file), VNODE, DISABLE)]);
            rewrite(folder, b"x");
            q.silent();
            q.set(&[ev(id(file), VNODE, ENABLE)]);
            assert_eq!(q.wait().fflags, NOTE_WRITE);
        });
    }),
    case("a deleted file interest is silent", "Q-16", |q| {
        on_file(q, NOTE_WRITE, |folder, file| {
            q.set(&[ev(id(file), VNODE, DELETE)]);
            rewrite(folder, b"x");
            q.silent();
        });
    }),
    case("a second ADD changes the notes", "Q-05", |q| {
        on_file(q, NOTE_WRITE, |folder, file| {
            q.set(&[ev(id(file), VNODE, ADD | CLEAR).notes(NOTE_ATTRIB)]);
            rewrite(folder, b"x");
            q.silent();
            set_mode(folder, 0o600);
            assert_eq!(q.wait().fflags, NOTE_ATTRIB);
        });
    }),
    case("two queues watch one file", "Q-01", |q| {
        let other = Queue::new();
        on_file(q, NOTE_WRITE, |folder, file| {
            other.set(&[ev(id(file), VNODE, ADD | CLEAR).notes(NOTE_ATTRIB)]);
            rewrite(folder, b"x");
            assert_eq!(q.wait().fflags, NOTE_WRITE);
            other.silent();
        });
    }),
    case("two descriptors of one file are two interests", "Q-01", |q| {
        on_file(q, NOTE_WRITE, |folder, file| {
            let second = File::open(folder.path("a")).unwrap();
            q.set(&[ev(id(&second), VNODE, ADD | CLEAR).notes(NOTE_ATTRIB)]);
            rewrite(folder, b"x");
            assert_eq!(q.wait().ident, id(file));
            set_mode(folder, 0o600);
            assert_eq!(q.wait().ident, id(&second));
        });
    }),
    case("a new file in a folder is told as a write", "Q-16", |q| {
        folder_told(q, NOTE_WRITE, |folder| fs::write(folder.path("new"), b"").unwrap());
    }),
    case("a file less in a folder is told as a write", "Q-16", |q| {
        folder_told(q, NOTE_WRITE, |folder| fs::remove_file(folder.path("a")).unwrap());
    }),
    case("a rename in a folder is told as a write", "Q-16", |q| {
        folder_told(q, NOTE_WRITE, |folder| fs::rename(folder.path("a"), folder.path("b")).unwrap());
    }),
    case("a folder in a folder is told as a link", "Q-16", |q| {
        folder_told(q, NOTE_LINK, |folder| fs::create_dir(folder.path("inner")).unwrap());
    }),
    case("a folder in a folder that comes or goes is told as a link, and no file is, and no other name", "Q-16", |_| {
        type Act = fn(&Folder, &Folder);
        const MOVED: u32 = NOTE_WRITE | NOTE_EXTEND;
        let acts: [(&str, u32, Act); 11] = [
            ("a folder is made", NOTE_WRITE | NOTE_LINK, |inside, _| fs::create_dir(inside.path("new")).unwrap()),
            ("a folder is removed", NOTE_WRITE | NOTE_LINK, |inside, _| fs::remove_dir(inside.path("folder")).unwrap()),
            ("a folder moves in", MOVED | NOTE_LINK, |inside, outside| {
                fs::rename(outside.path("folder"), inside.path("new")).unwrap();
            }),
            ("a folder moves out", MOVED | NOTE_LINK, |inside, outside| {
                fs::rename(inside.path("folder"), outside.path("new")).unwrap();
            }),
            ("a folder has another name", NOTE_WRITE, |inside, _| {
                fs::rename(inside.path("folder"), inside.path("new")).unwrap();
            }),
            ("a folder has another name, and another one a new one", NOTE_WRITE, |inside, _| {
                fs::rename(inside.path("folder"), inside.path("new")).unwrap();
                fs::rename(inside.path("other"), inside.path("folder")).unwrap();
            }),
            ("a file is made", NOTE_WRITE, |inside, _| drop(File::create(inside.path("new")).unwrap())),
            ("a file is removed", NOTE_WRITE, |inside, _| fs::remove_file(inside.path("file")).unwrap()),
            ("a file moves in", MOVED, |inside, outside| fs::rename(outside.path("file"), inside.path("new")).unwrap()),
            ("a file moves out", MOVED, |inside, outside| fs::rename(inside.path("file"), outside.path("new")).unwrap()),
            ("a file has another name", NOTE_WRITE, |inside, _| fs::rename(inside.path("file"), inside.path("new")).unwrap()),
        ];
        for (what, notes, act) in acts {
            let (queue, inside, outside) = (Queue::new(), Folder::new(), Folder::new());
            for folder in [&inside, &outside] {
                ["folder", "other"].iter().for_each(|name| fs::create_dir(folder.path(name)).unwrap());
                drop(folder.file("file", b""));
            }
            let open = inside.open();
            let asked = NOTE_DELETE | NOTE_WRITE | NOTE_EXTEND | NOTE_ATTRIB | NOTE_LINK | NOTE_RENAME;
            queue.set(&[ev(id(&open), VNODE, ADD | ONESHOT).notes(asked)]);
            act(&inside, &outside);
            let told = queue.wait().fflags;
            assert_eq!(told, notes, "{what}: {told:#x}");
        }
    }),
    case("opens, reads, writes and closes are told as they come", "Q-16", |q| {
        let notes = NOTE_OPEN | NOTE_READ | NOTE_WRITE | NOTE_EXTEND | NOTE_CLOSE | NOTE_CLOSE_WRITE;
        on_file(q, notes, |folder, _| {
            let is_told = |notes| assert_eq!((q.wait().fflags, q.now().len()), (notes, 0));
            let writer = open_to_write(folder);
            is_told(NOTE_OPEN);
            for (bytes, offset, told) in
                [(&b"abcdef"[..], 0, NOTE_WRITE | NOTE_EXTEND), (b"abcdef", 0, NOTE_WRITE), (b"g", 6, NOTE_WRITE | NOTE_EXTEND)]
            {
                std::os::unix::fs::FileExt::write_all_at(&writer, bytes, offset).unwrap();
                is_told(told);
            }
            drop(writer);
            is_told(NOTE_CLOSE_WRITE);
            let mut reader = File::open(folder.path("a")).unwrap();
            is_told(NOTE_OPEN);
            reader.read_exact(&mut [0; 3]).unwrap();
            is_told(NOTE_READ);
            drop(reader);
            is_told(NOTE_CLOSE);
        });
    }),
    case("of several numbers of one open file each is told what it asked for, and one that is closed nothing", "Q-01", |q| {
        on_file(q, NOTE_OPEN, |folder, file| {
            let numbers = [dup(file), dup(file)];
            for (number, notes) in numbers.into_iter().zip([NOTE_WRITE, NOTE_CLOSE | NOTE_CLOSE_WRITE]) {
                q.set(&[ev(usize::try_from(number).unwrap(), VNODE, ADD | CLEAR).notes(notes)]);
            }
            let mut writer = open_to_write(folder);
            assert_eq!((q.wait().fflags, q.now().len()), (NOTE_OPEN, 0));
            close(numbers[0]);
            writer.write_all(b"x").unwrap();
            q.silent();
            drop(writer);
            let event = q.wait();
            assert_eq!((event.ident, event.fflags), (usize::try_from(numbers[1]).unwrap(), NOTE_CLOSE_WRITE));
        });
    }),
    case("what is written into a file is not told to its folder", "Q-16", |q| {
        let folder = Folder::new();
        let _file = folder.file("a", b"abc");
        let open = folder.open();
        q.set(&[ev(id(&open), VNODE, ADD | CLEAR).notes(NOTE_WRITE)]);
        rewrite(&folder, b"x");
        q.silent();
    }),
    case("udata comes with the change", "Q-05", |q| {
        let folder = Folder::new();
        let file = folder.file("a", b"abc");
        q.set(&[ev(id(&file), VNODE, ADD | CLEAR).notes(NOTE_WRITE).tag(4)]);
        rewrite(&folder, b"x");
        assert_eq!(tag(&q.wait()), 4);
    }),
    case("a file that was replaced by name is watched for itself", "Q-16", |q| {
        on_file(q, NOTE_WRITE, |folder, _| {
            fs::rename(folder.path("a"), folder.path("old")).unwrap();
            fs::write(folder.path("a"), b"new").unwrap();
            q.silent();
            fs::write(folder.path("old"), b"changed").unwrap();
            assert_eq!(q.wait().fflags, NOTE_WRITE);
        });
    }),
    case("READ and VNODE of one file are two interests", "Q-01", |q| {
        let folder = Folder::new();
        let file = folder.file("a", b"");
        q.add(id(&file), READ);
        q.set(&[ev(id(&file), VNODE, ADD | CLEAR).notes(NOTE_WRITE)]);
        append(&folder);
        let mut filters: Vec<_> = q.now().iter().map(|event| event.filter).collect();
        filters.sort_unstable();
        assert_eq!(filters, [VNODE, READ]);
    }),
];

/// Watches a file of three bytes for `notes`, with CLEAR.
fn on_file(queue: &Queue, notes: u32, run: impl FnOnce(&Folder, &File)) {
    let folder = Folder::new();
    let file = folder.file("a", b"abc");
    queue.set(&[ev(id(&file), VNODE, ADD | CLEAR).notes(notes)]);
    run(&folder, &file);
}

/// Exactly `note` is told of what `act` does, once.
fn told(queue: &Queue, note: u32, act: impl FnOnce(&Folder, &File)) {
    on_file(queue, note, |folder, file| {
        act(folder, file);
        let event = queue.wait();
        assert_eq!((event.ident, event.filter, event.fflags), (id(file), VNODE, note));
        queue.silent();
    });
}

fn folder_told(queue: &Queue, note: u32, act: impl FnOnce(&Folder)) {
    let folder = Folder::new();
    let _file = folder.file("a", b"abc");
    let open = folder.open();
    queue.set(&[ev(id(&open), VNODE, ADD | CLEAR).notes(note)]);
    act(&folder);
    assert_eq!(queue.wait().fflags, note);
}

fn open_to_write(folder: &Folder) -> File {
    File::options().write(true).open(folder.path("a")).unwrap()
}

/// Writes over the beginning of the file.
fn rewrite(folder: &Folder, bytes: &[u8]) {
    open_to_write(folder).write_all(bytes).unwrap();
}

fn append(folder: &Folder) {
    File::options().append(true).open(folder.path("a")).unwrap().write_all(b"more").unwrap();
}

fn set_mode(folder: &Folder, mode: u32) {
    fs::set_permissions(folder.path("a"), fs::Permissions::from_mode(mode)).unwrap();
}
