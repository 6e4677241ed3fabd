// A file descriptor with an owner.
#pragma once

#include <unistd.h>

#include <utility>

namespace trireme {

// Owns what open, socket or pipe gave, and closes it; below 0: none.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int opened) : value_(opened) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) {
      ::close(value_);
    }
  }

  [[nodiscard]] int value() const { return value_; }
  [[nodiscard]] bool is_open() const { return value_ >= 0; }
  // Gives it up: the caller closes it.
  int release() { return std::exchange(value_, -1); }
  // Closes it now; false, with errno set, when the system refuses.
  bool close() { return ::close(release()) == 0; }

 private:
  int value_ = -1;
};

}  // namespace trireme
