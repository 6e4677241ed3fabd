// Which parts of a script count: the `if`, `case`, loops and functions that are open.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/shell/script.h"

namespace trireme::planner {

enum class Joint : std::uint8_t { kNone, kAnd, kOr };  // A; B, A && B, A || B

// How a command stands among those that it is joined with.
struct Joined {
  Joint joint = Joint::kNone;
  std::optional<bool> before = true;  // whether those succeeded
  bool negates = false;               // ! stands before it
  std::string after = {};             // the words of the one before
  // Whether it runs; one of which the file does not say so does.
  [[nodiscard]] bool runs() const;
  // Whether it rests on what the file does not say.
  [[nodiscard]] bool open() const { return joint != Joint::kNone && !before; }
  // Whether all of them succeed, when it ran and ended with `last`.
  [[nodiscard]] std::optional<bool> result(std::optional<bool> last) const;
};

// An `if`, `case`, loop, group of commands or call that is open.
struct Frame {
  enum class Kind : std::uint8_t {
    kIf,
    kCase,
    kLoop,
    kFunction,  // a body that is read where it stands
    kGroup,
    kSubshell,
    kCall  // of a function or another script
  } kind = Kind::kIf;
  Joined joined = {};
  bool runs = true;        // false: what it is joined with leaves it out
  bool condition = false;  // the words of its condition are being read
  bool active = true;      // the present branch counts
  bool ran = false;        // a branch was read
  bool taken = false;      // a branch was chosen for sure: the later ones do not count
  bool undecided = false;  // the file does not say whether the branch counts
  bool chosen = false;     // the branch counts by `choice` alone
  bool falls = false;      // ;& stands before: the next branch counts too
  bool negated = false;    // until: it counts where the condition fails
  int open_branches = 0;   // that the file did not decide so far
  std::optional<bool> result = true;
  std::string question = {};              // the words of the condition
  ShellText subject = {};                 // of `case`
  std::optional<ShellValues> outer = {};  // of a subshell: what stands around it
};

class Branches {
 public:
  // `choice` as in ShellWorld; what the file does not decide is added to `questions`.
  Branches(int choice, std::vector<ShellQuestion>& questions)
      : choice_(choice), questions_(questions) {}

  [[nodiscard]] bool active() const;       // what is read now counts
  [[nodiscard]] bool undecided() const;    // the file does not say whether it does
  [[nodiscard]] bool in_function() const;  // of a body that is read where it stands
  // Nothing but calls that run for sure is open from the n-th frame on.
  [[nodiscard]] bool plain_from(std::size_t first) const;
  // The file says of every frame from the n-th on that it runs.
  [[nodiscard]] bool sure_from(std::size_t first) const;
  [[nodiscard]] bool empty() const { return frames_.empty(); }
  [[nodiscard]] std::size_t depth() const { return frames_.size(); }
  [[nodiscard]] const Frame& at(std::size_t index) const { return frames_[index]; }
  [[nodiscard]] Frame& top() { return frames_.back(); }
  void open(Frame frame) { frames_.push_back(std::move(frame)); }
  void close() { frames_.pop_back(); }
  // then, do, elif and else; false: another word.
  bool keyword(std::string_view word, int line);
  // Whether the word ends the innermost frame: fi, done, esac, } and ).
  [[nodiscard]] bool is_end(std::string_view word) const;
  // ;; and its kin behind a branch of `case`.
  void end_of_case(std::string_view how);
  // The condition of the innermost frame is read: its result, or nothing where the file is open.
  void settle(std::optional<bool> result, int line);
  // A question of `A && NAME=value`.
  void ask_whether(const std::string& text, int line);
  // Those of the groups and calls around an assignment: `A && { NAME=value; }`.
  void ask_around(int line);
  // Whether what was read of the innermost frame succeeded, its last command with `last`.
  [[nodiscard]] std::optional<bool> status(std::optional<bool> last) const;
  // A word of the condition that is being read, if one is.
  void ask(const std::string& word);

 private:
  int choice_;
  std::vector<ShellQuestion>& questions_;
  std::vector<Frame> frames_;
};

}  // namespace trireme::planner
