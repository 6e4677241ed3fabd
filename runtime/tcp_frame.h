// The bytes that the store's clients and server exchange.
#pragma once

#include <string>

namespace trireme::runtime {

// A frame is a kind, two lengths and two strings. Requests: H hello (key rank, value ranks), S set,
// G get, Q query failure, F fail, B goodbye. Replies: V value, E error (key says what).
struct Frame {
  char kind = 0;
  std::string key;
  std::string value;
};

std::string encode(const Frame& frame);
// Takes one whole frame off the front of `bytes`. False: not whole yet. Throws Error on nonsense.
bool decode(std::string& bytes, Frame& frame);

}  // namespace trireme::runtime
