#include "tools/gunzip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <array>

#include "core/error.h"

namespace trireme::tools {

std::string gunzip(std::string_view packed, const std::string& path, std::size_t most) {
  z_stream stream{};
  constexpr int kGzipOnly = 16 + MAX_WBITS;
  if (inflateInit2(&stream, kGzipOnly) != Z_OK) {
    throw Error(path, "cannot be unpacked: zlib did not start");
  }
  std::string text;
  std::array<char, 1U << 16U> block{};
  std::string input(packed);
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  int state = Z_OK;
  while (state == Z_OK && text.size() <= most) {
    stream.next_out = reinterpret_cast<Bytef*>(block.data());
    stream.avail_out = static_cast<uInt>(block.size());
    state = inflate(&stream, Z_NO_FLUSH);
    text.append(block.data(), block.size() - stream.avail_out);
    if (state == Z_OK && stream.avail_in == 0 && stream.avail_out > 0) {
      state = Z_BUF_ERROR;  // it ends early
    }
  }
  inflateEnd(&stream);
  if (text.size() > most) {
    throw Error(path, fmt::format("unpacks to more than {} MiB", most >> 20U));
  }
  if (state != Z_STREAM_END) {
    throw Error(path, "is damaged or cut short: gzip cannot unpack it");
  }
  return text;
}

}  // namespace trireme::tools
