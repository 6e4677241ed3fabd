#include "core/happens_before.h"

#include <algorithm>

namespace trireme {

HappensBefore::HappensBefore(const Program& role) : streams_(role.streams.size()) {
  places_.resize(role.ops.size());
  own_stream_.resize(role.ops.size());
  clocks_.resize(role.ops.size() * streams_);
  std::vector<std::uint32_t> now(streams_ * streams_, 0);  // what each stream knows
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    const Op& op = role.ops[i];
    const std::size_t s = index_of(op.stream);
    std::uint32_t* known = &now[s * streams_];
    for (std::uint32_t w = op.waits.first; w < op.waits.first + op.waits.count; ++w) {
      const std::uint32_t* ended = &clocks_[index_of(role.waits[w]) * streams_];
      for (std::size_t q = 0; q < streams_; ++q) {
        known[q] = std::max(known[q], ended[q]);
      }
    }
    places_[i] = ++known[s];
    own_stream_[i] = static_cast<std::uint32_t>(s);
    std::copy(known, known + streams_, &clocks_[i * streams_]);
  }
}

std::uint32_t HappensBefore::ended_before(OpId op, StreamId stream) const {
  const std::uint32_t ended = clocks_[index_of(op) * streams_ + index_of(stream)];
  return own_stream_[index_of(op)] == index_of(stream) ? ended - 1 : ended;
}

}  // namespace trireme
