#include "runtime/cpu/processes.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstring>
#include <exception>
#include <numeric>

#include "core/check.h"
#include "core/error.h"
#include "runtime/clock.h"

namespace trireme::runtime::cpu {
namespace {

// The first word of a letter.
// Of an arrival follow: group, stream, round, place, label, counts a member, members.
constexpr const char* kArrival = "arrival";
constexpr const char* kMessage = "message";  // channel, tag, elements

template <typename T>
T number_in(const std::string& word) {
  T value{};
  const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  TRIREME_CHECK(error == std::errc());
  return value;
}

std::span<const std::byte> bytes_at(const void* data, std::size_t size) {
  return {static_cast<const std::byte*>(data), size};
}

}  // namespace

Processes::Processes(Coordinator& coordinator, const StoreAddress& master, Seconds timeout)
    : coordinator_(&coordinator),
      rank_(coordinator.rank()),
      exchange_(coordinator.ranks()),
      links_(coordinator, master, timeout, [this](Rank from, Letter letter) {
        try {
          receive(from, std::move(letter));
        } catch (const std::exception& error) {
          exchange_.fail(error.what());
        }
      }) {
  exchange_.connect({.arrive = [this](const Arrival& arrival) { this->arrive(arrival); },
                     .send = [this](Rank to, std::uint16_t channel,
                                    const Message& message) { this->send(to, channel, message); },
                     .name = [this](Rank rank) { return links_.name(rank); }});
  coordinator.barrier();  // nobody sends before everybody can receive
}

void Processes::arrive(const Arrival& arrival) {
  const Brought& brought = arrival.brought;
  std::vector<std::string> words{kArrival,
                                 std::to_string(index_of(arrival.group)),
                                 arrival.stream,
                                 std::to_string(arrival.round),
                                 std::to_string(arrival.place),
                                 arrival.label,
                                 std::to_string(brought.rows == nullptr ? 0 : brought.rows->each)};
  for (const Rank member : arrival.members) {
    words.push_back(std::to_string(index_of(member)));
  }
  const bool rows = brought.rows != nullptr;
  const std::size_t counts =
      rows ? brought.rows->each * arrival.members.size() * sizeof(std::int32_t) : 0;
  const std::array<std::span<const std::byte>, 2> parts{
      bytes_at(rows ? brought.rows->counts : nullptr, counts),
      bytes_at(rows ? brought.rows->rows : brought.data, brought.bytes)};
  for (const Rank member : arrival.members) {
    if (member != rank_) {
      post(member, words, parts);
    }
  }
}

// When a connection is lost, the store knows who was the first to go.
void Processes::post(Rank to, const std::vector<std::string>& words,
                     std::span<const std::span<const std::byte>> parts) {
  try {
    links_.send(to, words, parts);
  } catch (const Error&) {
    const std::string first = coordinator_->failure();
    if (first.empty()) {
      throw;
    }
    throw Error(links_.name(rank_), "stopped because " + first, ErrorKind::kMissingMachine);
  }
}

void Processes::send(Rank receiver, std::uint16_t channel, const Message& message) {
  const std::array<std::span<const std::byte>, 1> parts{bytes_at(message.data, message.bytes)};
  post(receiver,
       {kMessage, std::to_string(channel), std::to_string(message.tag),
        std::to_string(message.count)},
       parts);
}

void Processes::receive(Rank from, Letter letter) {
  const std::vector<std::string>& words = letter.words;
  if (words.at(0) == kMessage) {
    exchange_.deliver(from, rank_, number_in<std::uint16_t>(words.at(1)),
                      {.count = number_in<std::int64_t>(words.at(3)),
                       .tag = number_in<std::uint32_t>(words.at(2)),
                       .sent = now_seconds(),
                       .kept = std::move(letter.bytes)});
    return;
  }
  TRIREME_CHECK(words[0] == kArrival);
  // Hosts have clocks of their own: a member is ready when what it brings is here.
  Arrival arrival{.members = {},
                  .place = number_in<std::size_t>(words.at(4)),
                  .group = GroupId(number_in<std::uint32_t>(words.at(1))),
                  .stream = words.at(2),
                  .round = number_in<std::int64_t>(words.at(3)),
                  .brought = {},
                  .ready = now_seconds(),
                  .label = words.at(5)};
  for (std::size_t i = 7; i < words.size(); ++i) {
    arrival.members.push_back(Rank(number_in<std::uint32_t>(words[i])));
  }
  Kept kept;
  kept.rows.each = number_in<std::size_t>(words.at(6));
  kept.counts.resize(kept.rows.each * arrival.members.size());
  const std::size_t front = kept.counts.size() * sizeof(std::int32_t);
  TRIREME_CHECK(front <= letter.bytes.size());
  if (front > 0) {
    std::memcpy(kept.counts.data(), letter.bytes.data(), front);
    letter.bytes.erase(letter.bytes.begin(),
                       letter.bytes.begin() + static_cast<std::ptrdiff_t>(front));
  }
  kept.bytes = std::move(letter.bytes);
  exchange_.arrive_from_elsewhere(arrival, std::move(kept));
}

}  // namespace trireme::runtime::cpu
