#include "tools/memory_stream.h"

#include <cstdlib>
#include <new>

namespace trireme::tools {

MemoryStream::MemoryStream() : stream_(::open_memstream(&text_, &size_)) {
  if (stream_ == nullptr) {
    throw std::bad_alloc();
  }
}

MemoryStream::~MemoryStream() {
  std::fclose(stream_);
  std::free(text_);
}

std::string MemoryStream::text() const {
  std::fflush(stream_);
  return {text_, size_};
}

}  // namespace trireme::tools
