"""Serves two files from a device that answers as slowly as it is told, and becomes the program that is named behind.

`python3 slow_device.py FOLDER BYTES PROGRAM ARGUMENTS..`: mounts a file system of its own (fuse(4)) at FOLDER/site, for this mount namespace alone. There lie `warm.txt`, which is read at once,
and `cold.bin` of BYTES, of which nothing can be read until somebody opens the fifo FOLDER/release to write. The first read of it makes the file FOLDER/asked.
`warm.txt` becomes another one as long when FOLDER/changed is there: as on a machine far away, of which nobody tells here.
As long as FOLDER/hold has the name of an operation, none of that name is answered, and each makes FOLDER/held-NAME.
"""

import ctypes, os, signal, stat, struct, sys, threading, time

folder, length = sys.argv[1], int(sys.argv[2])
# Without a length it says of itself what any does (statfs(2)); with one it has no answer to that.
answers_statfs = length == 0
site, WARM, CHANGED = folder + "/site", b"warm\n", b"cool\n"
libc = ctypes.CDLL(None, use_errno=True)
# Operations of fuse(4), as <linux/fuse.h> numbers them.
LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT = 1, 2, 3, 14, 15, 17, 18, 25, 26
OPENDIR, READDIR, RELEASEDIR, INTERRUPT, DESTROY, BATCH_FORGET = 27, 28, 29, 36, 38, 42
HELD = {LOOKUP: "LOOKUP", GETATTR: "GETATTR", OPEN: "OPEN", READ: "READ", STATFS: "STATFS", FLUSH: "FLUSH", OPENDIR: "OPENDIR", READDIR: "READDIR"}
ENOENT, ENOSYS = 2, 38
NODES = {1: (stat.S_IFDIR | 0o755, 0), 2: (stat.S_IFREG | 0o644, len(WARM)), 3: (stat.S_IFREG | 0o644, length)}
NAMES = {b"warm.txt": 2, b"cold.bin": 3}


def has_changed():
    return os.path.exists(folder + "/changed")


def attributes(node):
    mode, size = NODES[node]
    time = 2000 if node == 2 and has_changed() else 1000
    return struct.pack("<6Q10I", node, size, size // 512 + 1, time, time, time, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def content(node, offset, size):
    if node == 2:
        return (CHANGED if has_changed() else WARM)[offset : offset + size]
    # Each eight bytes say where they lie.
    begin, end = offset & ~7, min(offset + size, length)
    words = b"".join(struct.pack(">Q", at) for at in range(begin, end, 8))
    return words[offset - begin : end - begin]


def names(offset):
    # Each entry (struct fuse_dirent): its node, where the next one begins, and its name in whole words.
    entries = [] if offset > 0 else list(NAMES.items())
    packed = (struct.pack("<QQII", node, 1 + at, len(name), 8) + name for at, (name, node) in enumerate(entries))
    return b"".join(entry + bytes(-len(entry) % 8) for entry in packed)


def is_held(operation):
    try:
        with open(folder + "/hold") as hold:
            return hold.read() == HELD.get(operation)
    except FileNotFoundError:
        return False


class Device:
    def __init__(self, fd):
        self.fd, self.lock, self.held, self.is_released = fd, threading.Lock(), [], False
        self.late = []

    def answer(self, unique, data=b"", error=0):
        os.write(self.fd, struct.pack("<IiQ", 16 + len(data), -error, unique) + data)

    def read(self, unique, node, offset, size):
        with self.lock:
            if node == 3 and not self.is_released:
                self.held.append((unique, offset, size))
                open(folder + "/asked", "w").close()
                return
        self.answer(unique, content(node, offset, size))

    def release(self):
        open(folder + "/release").close()
        with self.lock:
            self.is_released, held = True, self.held
        for unique, offset, size in held:
            self.answer(unique, content(3, offset, size))

    def answer_late(self):
        while True:
            time.sleep(0.005)
            with self.lock:
                due = [request for request in self.late if not is_held(request[1])]
                self.late = [request for request in self.late if request not in due]
            for request in due:
                self.carry_out(*request[1:])

    def serve(self):
        threading.Thread(target=self.release, daemon=True).start()
        threading.Thread(target=self.answer_late, daemon=True).start()
        while True:
            request = os.read(self.fd, 1 << 20)
            _, operation, unique, node = struct.unpack_from("<IIQQ", request)
            body = request[40:]
            if operation in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            if is_held(operation):
                with self.lock:
                    self.late.append((unique, operation, unique, node, body))
                open(f"{folder}/held-{HELD[operation]}", "w").close()
            else:
                self.carry_out(operation, unique, node, body)

    def carry_out(self, operation, unique, node, body):
        if operation == INIT:
            _, _, readahead, flags = struct.unpack_from("<4I", body)
            # Of the flags: several reads at a time.
            self.answer(unique, struct.pack("<4IHHIIHHI28x", 7, 31, readahead, flags & 1, 64, 48, 1 << 16, 1, 0, 0, 0))
        elif operation == LOOKUP and NAMES.get(body[:-1]):
            child = NAMES[body[:-1]]
            self.answer(unique, struct.pack("<4Q2I", child, 0, 1, 1, 0, 0) + attributes(child))
        elif operation == LOOKUP:
            self.answer(unique, error=ENOENT)
        elif operation == GETATTR:
            self.answer(unique, struct.pack("<Q2I", 1, 0, 0) + attributes(node))
        elif operation in (OPEN, OPENDIR):
            # What was read stays in the system's memory (FOPEN_KEEP_CACHE), but of what may change.
            self.answer(unique, struct.pack("<Q2I", 0, 0 if node == 2 else 2, 0))
        elif operation == STATFS and answers_statfs:
            self.answer(unique, struct.pack("<5Q10I", 0, 0, 0, 0, 0, 4096, 255, 4096, 0, 0, 0, 0, 0, 0, 0))
        elif operation == READDIR:
            self.answer(unique, names(struct.unpack_from("<QQI", body)[1]))
        elif operation == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            self.read(unique, node, offset, size)
        elif operation in (RELEASE, RELEASEDIR, FLUSH, DESTROY):
            self.answer(unique)
        else:
            self.answer(unique, error=ENOSYS)


def main():
    os.mkdir(site)
    os.mkfifo(folder + "/release")
    fd = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    if libc.mount(b"slow", site.encode(), b"fuse", 0, options) != 0:
        sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")
    parent = os.getpid()
    if os.fork() == 0:
        PR_SET_PDEATHSIG = 1
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:
            Device(fd).serve()
        os._exit(1)
    os.close(fd)
    os.execv(sys.argv[3], sys.argv[3:])


main()
