// Files that are on the disk when their writing has returned, and folders that appear whole.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace trireme::runtime {

// A file being written; closing without `finish` leaves whatever there is. Throws Error when the
// disk refuses.
class DurableFile {
 public:
  explicit DurableFile(std::string path);
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;
  DurableFile(DurableFile&&) = delete;
  DurableFile& operator=(DurableFile&&) = delete;
  ~DurableFile();

  void append(const void* data, std::size_t size);
  void finish();  // flushes to the disk

 private:
  [[noreturn]] void fail(const char* what) const;
  std::string path_;
  int descriptor_ = -1;
};

// Flushes a folder's list of names.
void sync_folder(const std::filesystem::path& folder);

// Renames `temporary` to `place`, or swaps it with what is there: at no moment is there none.
// Throws Error.
void put_in_place(const std::filesystem::path& temporary, const std::filesystem::path& place);

}  // namespace trireme::runtime
