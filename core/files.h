// Files read and written whole. Whatever call the system refuses is an Error that names the file
// and says why.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/descriptor.h"

namespace trireme {

inline constexpr std::size_t kReadMost = std::size_t{4} << 30U;

// The content of a file, pipe or device. `wanted` says in errors what would be right: "a JSON
// file". Throws Error: missing or unreadable, a folder, or longer than `most` bytes (no more is
// read: a device may have no end).
std::string read_file(const std::string& path, std::string_view wanted,
                      std::size_t most = kReadMost);

// A file being written from its start; what was not finished may not be on the disk.
class FileWriter {
 public:
  // What errors say: the name of the file for people, and what ends the message.
  struct Words {
    std::string name, remark;
  };
  // Every member throws Error when the system refuses.
  FileWriter(const std::string& place, Words words);
  void append(const void* data, std::size_t size);
  void finish();  // all of it is on the disk when this returns

 private:
  [[noreturn]] void fail(const char* what) const;
  Words words_;
  Descriptor file_;
};

// Flushes a folder's list of names to the disk. Throws Error.
void sync_folder(const std::string& folder);

// Writes to a temporary name beside `path`, flushes it to the disk and renames it: a crash leaves
// the old file or the new one, whole. Links are followed, the old file's mode stays, and what is no
// file (a pipe, a device) is written to. Throws Error.
void write_file_atomically(const std::string& path, std::string_view content);

}  // namespace trireme
