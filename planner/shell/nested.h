// How deep a reader stands in what nests, against files that nest it for ever.
#pragma once

namespace trireme::planner {

// One deeper for as long as it lives; the reader holds the count to its limit before.
class Nested {
 public:
  explicit Nested(int& depth) : depth_(depth) { ++depth_; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;
  Nested(Nested&&) = delete;
  Nested& operator=(Nested&&) = delete;
  ~Nested() { --depth_; }

 private:
  int& depth_;
};

}  // namespace trireme::planner
