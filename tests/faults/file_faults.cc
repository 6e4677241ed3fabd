#include "tests/faults/file_faults.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>

namespace trireme::faults {
namespace {

struct State {
  std::mutex mutex;
  bool watching = false;
  std::string folder;
  std::vector<Operation> done;
  std::size_t calls = 0, most = 0;
  std::optional<std::size_t> failing;
  int error = 0;
  std::map<int, std::pair<std::string, std::int64_t>> open;  // by descriptor: path and place
};

State& state() {
  static auto* const one = new State;  // outlives whatever is closed at the end
  return *one;
}

std::string absolute(int folder, const char* path) {
  if (*path == '/' || folder == AT_FDCWD) {
    return std::filesystem::absolute(path).lexically_normal().string();
  }
  std::error_code failed;
  const auto base =
      std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(folder), failed);
  return (base / path).lexically_normal().string();
}

bool is_watched(const std::string& path) {
  const State& s = state();
  return s.watching && (path == s.folder || path.starts_with(s.folder + "/"));
}

// Counts a call; whether it is the one that fails.
bool fails() {
  State& s = state();
  if (s.failing == s.calls++) {
    errno = s.error;
    return true;
  }
  return false;
}

// A call on names: fails, or is done by `act` and written down.
template <class Act>
int named(Call call, const std::string& path, const std::string& to, Act act) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const bool watched = is_watched(path) || (!to.empty() && is_watched(to));
  if (watched && fails()) {
    return -1;
  }
  const int result = static_cast<int>(act());
  if (watched && result >= 0) {
    s.done.push_back({call, path, to, 0, {}});
  }
  return result;
}

int open_file(int folder, const char* path, int flags, mode_t mode) {
  const std::string whole = absolute(folder, path);
  const bool creates = (flags & O_TRUNC) != 0;
  const int file = named(creates ? Call::kCreate : Call::kOpen, whole, "",
                         [&] { return ::syscall(SYS_openat, folder, path, flags, mode); });
  const std::lock_guard lock(state().mutex);
  if (file >= 0 && is_watched(whole)) {
    state().open[file] = {whole, 0};
  }
  return file;
}

std::size_t moved_at_once(std::size_t size) {
  return state().most == 0 ? size : std::min(size, state().most);
}

ssize_t read_file(int file, void* to, std::size_t size) {
  State& s = state();
  std::unique_lock lock(s.mutex);
  if (s.watching && s.open.contains(file)) {
    if (fails()) {
      return -1;
    }
    size = moved_at_once(size);
  }
  lock.unlock();  // a pipe's other end may be a thread of ours
  return ::syscall(SYS_read, file, to, size);
}

ssize_t write_file(int file, const void* from, std::size_t size) {
  State& s = state();
  std::unique_lock lock(s.mutex);
  const auto found = s.open.find(file);
  if (!s.watching || found == s.open.end()) {
    lock.unlock();
    return ::syscall(SYS_write, file, from, size);
  }
  if (fails()) {
    return -1;
  }
  const ssize_t written = ::syscall(SYS_write, file, from, moved_at_once(size));
  if (written > 0) {
    auto& [path, place] = found->second;
    s.done.push_back({Call::kWrite,
                      path,
                      "",
                      place,
                      {static_cast<const char*>(from), static_cast<std::size_t>(written)}});
    place += written;
  }
  return written;
}

int flush_file(int file) {
  State& s = state();
  std::string path;
  {
    const std::lock_guard lock(s.mutex);
    const auto found = s.open.find(file);
    path = s.watching && found != s.open.end() ? found->second.first : "/";
  }
  return named(Call::kFlush, path, "", [&] { return ::syscall(SYS_fsync, file); });
}

int close_file(int file) {
  {
    const std::lock_guard lock(state().mutex);
    state().open.erase(file);
  }
  return static_cast<int>(::syscall(SYS_close, file));
}

}  // namespace

Watch::Watch(std::string folder) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.watching = true;
  s.folder = std::move(folder);
  s.done.clear();
  s.open.clear();
  s.calls = s.most = 0;
  s.failing.reset();
}

Watch::~Watch() {
  const std::lock_guard lock(state().mutex);
  state().watching = false;
}

void Watch::fail(std::size_t call, int error) {
  const std::lock_guard lock(state().mutex);
  state().failing = call;
  state().error = error;
}

void Watch::move_at_most(std::size_t bytes) {
  const std::lock_guard lock(state().mutex);
  state().most = bytes;
}

std::vector<Operation> Watch::operations() const {
  const std::lock_guard lock(state().mutex);
  return state().done;
}

std::size_t Watch::calls() const {
  const std::lock_guard lock(state().mutex);
  return state().calls;
}

std::string Replay::moved(const std::string& path) const {
  return to_ + path.substr(from_.size());
}

void Replay::apply(const Operation& operation) const {
  namespace fs = std::filesystem;
  const std::string path = moved(operation.path);
  switch (operation.call) {
    case Call::kCreate:
      std::fclose(std::fopen(path.c_str(), "w"));
      break;
    case Call::kWrite: {
      std::FILE* file = std::fopen(path.c_str(), "r+");
      std::fseek(file, operation.offset, SEEK_SET);
      std::fwrite(operation.bytes.data(), 1, operation.bytes.size(), file);
      std::fclose(file);
      break;
    }
    case Call::kRename:
      fs::rename(path, moved(operation.to));
      break;
    case Call::kExchange:
      ::renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, moved(operation.to).c_str(), RENAME_EXCHANGE);
      break;
    case Call::kRemove:
      fs::remove(path);
      break;
    case Call::kMakeFolder:
      fs::create_directory(path);
      break;
    case Call::kOpen:
    case Call::kRead:
    case Call::kFlush:
      break;
  }
}

}  // namespace trireme::faults

// The C library's own names: what the program links finds these first.
extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return trireme::faults::open_file(AT_FDCWD, path, flags, mode);
}
ssize_t read(int file, void* to, size_t size) {
  return trireme::faults::read_file(file, to, size);
}
ssize_t write(int file, const void* from, size_t size) {
  return trireme::faults::write_file(file, from, size);
}
int fsync(int file) {
  return trireme::faults::flush_file(file);
}
int close(int file) {
  return trireme::faults::close_file(file);
}
int rename(const char* from, const char* to) noexcept {
  using namespace trireme::faults;
  return named(Call::kRename, absolute(AT_FDCWD, from), absolute(AT_FDCWD, to),
               [&] { return ::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0); });
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned flags) noexcept {
  using namespace trireme::faults;
  return named(flags == RENAME_EXCHANGE ? Call::kExchange : Call::kRename,
               absolute(from_folder, from), absolute(to_folder, to),
               [&] { return ::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags); });
}
int unlinkat(int folder, const char* path, int flags) noexcept {
  using namespace trireme::faults;
  return named(Call::kRemove, absolute(folder, path), "",
               [&] { return ::syscall(SYS_unlinkat, folder, path, flags); });
}
int unlink(const char* path) noexcept {
  return unlinkat(AT_FDCWD, path, 0);
}
int rmdir(const char* path) noexcept {
  return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}
int remove(const char* path) noexcept {
  return unlink(path) == 0 ? 0 : (errno == EISDIR || errno == EPERM ? rmdir(path) : -1);
}
int mkdir(const char* path, mode_t mode) noexcept {
  using namespace trireme::faults;
  return named(Call::kMakeFolder, absolute(AT_FDCWD, path), "",
               [&] { return ::syscall(SYS_mkdirat, AT_FDCWD, path, mode); });
}
}
