#include "tools/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trireme::tools {
namespace {

constexpr std::chrono::milliseconds kPatience{1000};
constexpr std::chrono::milliseconds kRefresh{100};

}  // namespace

Progress::Progress(const Console& console, std::string what)
    : console_(console),
      what_(std::move(what)),
      begin_(std::chrono::steady_clock::now()),
      last_(begin_) {}

Progress::~Progress() {
  clear();
}

void Progress::show(double share) {
  const auto now = std::chrono::steady_clock::now();
  if (!console_.progress || now - begin_ < kPatience || (drawn_ && now - last_ < kRefresh)) {
    return;
  }
  const double elapsed = std::chrono::duration<double>(now - begin_).count();
  const double bounded = std::clamp(share, 0.0, 1.0);
  const auto bar = static_cast<std::size_t>(24 * bounded);
  fmt::print(console_.err, "\r{} [{:=<{}}{: <{}}] {:3.0f} %  {:.0f} s\x1b[K", what_, "", bar, "",
             24 - bar, 100 * bounded, elapsed);
  std::fflush(console_.err);
  drawn_ = true;
  last_ = now;
}

void Progress::clear() {
  if (drawn_) {
    fmt::print(console_.err, "\r\x1b[K");
    std::fflush(console_.err);
    drawn_ = false;
  }
}

}  // namespace trireme::tools
