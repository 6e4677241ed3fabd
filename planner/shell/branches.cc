#include "planner/shell/branches.h"

#include <algorithm>

namespace trireme::planner {

std::optional<bool> joined_result(std::string_view joint, std::optional<bool> before,
                                  std::optional<bool> last) {
  // The second part runs only where the first one leaves the answer open.
  if (joint == "&&") {
    return last && !*last ? last : (before ? last : std::nullopt);
  }
  if (joint == "||") {
    return last && *last ? last : (before ? last : std::nullopt);
  }
  return last;
}

bool Branches::active() const {
  return std::all_of(frames_.begin(), frames_.end(),
                     [](const Frame& frame) { return frame.active || frame.condition; });
}

bool Branches::undecided() const {
  return std::any_of(frames_.begin(), frames_.end(),
                     [](const Frame& frame) { return frame.undecided; });
}

bool Branches::in_function() const {
  return std::any_of(frames_.begin(), frames_.end(),
                     [](const Frame& frame) { return frame.kind == Frame::Kind::kFunction; });
}

bool Branches::keyword(std::string_view word, int line) {
  if (word == "}") {
    const bool braces =
        !empty() && (top().kind == Frame::Kind::kFunction || top().kind == Frame::Kind::kGroup);
    if (braces) {
      close();
    }
    return true;
  }
  if (empty()) {
    return false;
  }
  Frame& frame = top();
  if (word == "then") {
    settle(frame.negated && frame.result ? !*frame.result : frame.result, line);
  } else if (word == "do") {
    if (frame.condition) {
      settle(std::nullopt, line);
    }
  } else if (word == "elif") {
    frame.condition = !frame.taken;
    frame.active = false;
    frame.undecided = false;
    frame.result = true;
    frame.question.clear();
  } else if (word == "else") {
    const bool unknown = frame.undecided;
    frame.active = !frame.taken;
    frame.undecided = unknown && frame.active;
  } else if (word == "fi" || word == "done" || word == "esac") {
    close();
  } else {
    return false;
  }
  return true;
}

void Branches::settle(std::optional<bool> result, int line) {
  Frame& frame = top();
  const bool open = !result && !frame.taken && frame.kind != Frame::Kind::kLoop;
  if (open && choice_ >= 0) {
    result = frame.open_branches == choice_;
  }
  frame.open_branches += open ? 1 : 0;
  frame.active = !frame.taken && result.value_or(true);
  frame.undecided = frame.active && !result;
  frame.taken = frame.taken || (result && *result);
  frame.condition = false;
  const bool counts = std::all_of(frames_.begin(), frames_.end() - 1,
                                  [](const Frame& outer) { return outer.active; });
  if (open && (frame.undecided || choice_ >= 0) && counts) {
    frame.question.erase(frame.question.find_last_not_of(" ;") + 1);
    ask_whether(frame.question, line);
  }
}

void Branches::end_of_case(std::string_view how) {
  if (!how.starts_with(";") || how.size() < 2 || empty() || top().kind != Frame::Kind::kCase) {
    return;
  }
  Frame& frame = top();
  frame.falls = how == ";&" && frame.active;
  frame.taken = frame.taken && (how == ";;" || !frame.active);
  frame.condition = true;
  frame.active = false;
  frame.undecided = false;
}

void Branches::ask_whether(const std::string& text, int line) {
  const bool asked = std::any_of(questions_.begin(), questions_.end(), [&](const auto& one) {
    return one.line == line && one.text == text;
  });
  if (!asked) {  // in another round of a loop
    questions_.push_back({text, line});
  }
}

void Branches::ask(const std::string& word) {
  if (!empty() && top().condition) {
    top().question += (top().question.empty() ? "" : " ") + word;
  }
}

}  // namespace trireme::planner
