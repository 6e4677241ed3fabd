// A C stream into memory: what a command prints, for callers that keep it.
#pragma once

#include <cstdio>
#include <string>

namespace trireme::tools {

class MemoryStream {
 public:
  MemoryStream();  // throws std::bad_alloc where memory has no room for it
  MemoryStream(const MemoryStream&) = delete;
  MemoryStream& operator=(const MemoryStream&) = delete;
  MemoryStream(MemoryStream&&) = delete;
  MemoryStream& operator=(MemoryStream&&) = delete;
  ~MemoryStream();

  [[nodiscard]] std::FILE* stream() const { return stream_; }
  // What was written so far.
  [[nodiscard]] std::string text() const;

 private:
  char* text_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* stream_;
};

}  // namespace trireme::tools
