// What a person gave us is wrong, or the machine lacks something: thrown as Error, caught once in
// main, printed as the one line `trireme: WHERE: WHAT`, and turned into the exit code.
#pragma once

#include <stdexcept>
#include <string>

namespace trireme {

enum class ErrorKind {
  kBadInput,        // exit code 2
  kMissingMachine,  // exit code 3: no GPU, no NCCL
};

// `where` is FILE:LINE, FILE#/json/pointer, a flag or a key; `what` says what is wrong and what
// would be right.
class Error : public std::runtime_error {
 public:
  Error(std::string where, const std::string& what, ErrorKind error_kind = ErrorKind::kBadInput);
  [[nodiscard]] ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace trireme
