#include "runtime/tcp_frame.h"

#include <fmt/format.h>

#include <cstdint>

#include "core/error.h"

namespace trireme::runtime {
namespace {

constexpr std::size_t kHeader = 9;

std::size_t length_at(const std::string& bytes, std::size_t at) {
  std::size_t size = 0;
  for (unsigned i = 0; i < 4; ++i) {
    size |= std::size_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return size;
}

}  // namespace

std::string encode(const Frame& frame) {
  if (frame.key.size() + frame.value.size() > kFrameMost) {
    throw Error("MASTER_PORT", fmt::format("a message of {} bytes is more than the store's {}",
                                           frame.key.size() + frame.value.size(), kFrameMost));
  }
  std::string bytes(1, frame.kind);
  for (const std::size_t size : {frame.key.size(), frame.value.size()}) {
    for (unsigned shift = 0; shift < 32; shift += 8) {
      bytes += static_cast<char>((size >> shift) & 0xffU);
    }
  }
  return bytes + frame.key + frame.value;
}

bool decode(std::string& bytes, Frame& frame, std::size_t most) {
  if (bytes.size() < kHeader) {
    return false;
  }
  const std::size_t key = length_at(bytes, 1);
  const std::size_t value = length_at(bytes, 5);
  if (key + value > most) {
    throw Error("MASTER_PORT", "something that is not trireme talks on this port");
  }
  const std::size_t whole = kHeader + key + value;
  if (bytes.size() < whole) {
    return false;
  }
  frame = {bytes[0], bytes.substr(kHeader, key), bytes.substr(kHeader + key, value)};
  bytes.erase(0, whole);
  return true;
}

}  // namespace trireme::runtime
