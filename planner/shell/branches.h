// Which parts of a script count: the `if`, `case`, loops and functions that are open.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/shell/script.h"

namespace trireme::planner {

// An `if`, `case` or loop that is open.
struct Frame {
  enum class Kind : std::uint8_t { kIf, kCase, kLoop, kFunction, kGroup } kind = Kind::kIf;
  bool condition = false;  // the words of its condition are being read
  bool active = true;      // the present branch counts
  bool taken = false;      // a branch was chosen for sure: the later ones do not count
  bool undecided = false;  // the file does not say whether the branch counts
  bool falls = false;      // ;& stands before: the next branch counts too
  bool negated = false;    // until: it counts where the condition fails
  int open_branches = 0;   // that the file did not decide so far
  std::optional<bool> result = true;
  std::string question = {};  // the words of the condition
  ShellText subject = {};     // of `case`
};

// Whether `A && B` and `A || B` succeed, from A's result and that of the last command that ran.
std::optional<bool> joined_result(std::string_view joint, std::optional<bool> before,
                                  std::optional<bool> last);

class Branches {
 public:
  // `choice` as in ShellWorld; what the file does not decide is added to `questions`.
  Branches(int choice, std::vector<ShellQuestion>& questions)
      : choice_(choice), questions_(questions) {}

  [[nodiscard]] bool active() const;       // what is read now counts
  [[nodiscard]] bool undecided() const;    // the file does not say whether it does
  [[nodiscard]] bool in_function() const;  // of a body that is read where it stands
  [[nodiscard]] bool empty() const { return frames_.empty(); }
  [[nodiscard]] std::size_t depth() const { return frames_.size(); }
  [[nodiscard]] const Frame& at(std::size_t index) const { return frames_[index]; }
  [[nodiscard]] Frame& top() { return frames_.back(); }
  void open(Frame frame) { frames_.push_back(std::move(frame)); }
  void close() { frames_.pop_back(); }
  // then, do, elif, else, fi, done, esac and }; false: another word.
  bool keyword(std::string_view word, int line);
  // ;; and its kin behind a branch of `case`.
  void end_of_case(std::string_view how);
  // The condition of the innermost frame is read: its result, or nothing where the file is open.
  void settle(std::optional<bool> result, int line);
  // A question of `A && NAME=value`.
  void ask_whether(const std::string& text, int line);
  // A word of the condition that is being read, if one is.
  void ask(const std::string& word);

 private:
  int choice_;
  std::vector<ShellQuestion>& questions_;
  std::vector<Frame> frames_;
};

}  // namespace trireme::planner
