// The bytes that the store's clients and server exchange.
#pragma once

#include <cstddef>
#include <string>

namespace trireme::runtime {

// A frame is a kind, two lengths and two strings. Requests: H hello and W hello of a watch (key
// rank, value "RANKS@JOB HOST"), S set, G get (value: how many ranks read the key before it is
// forgotten, "" for never), Q query failure, F fail, B goodbye. Replies: V value (key as in the
// get, else ""), E error (key says what).
struct Frame {
  char kind = 0;
  std::string key;
  std::string value;
};

// Bytes of a frame's key and value together: what a rank measured of two million ops.
inline constexpr std::size_t kFrameMost = std::size_t{64} << 20U;

// Throws Error when the frame is larger than kFrameMost.
std::string encode(const Frame& frame);
// Takes one whole frame off the front of `bytes`. False: not whole yet. Throws Error when it says
// that it is larger than `most`, as nonsense does.
bool decode(std::string& bytes, Frame& frame, std::size_t most = kFrameMost);

}  // namespace trireme::runtime
