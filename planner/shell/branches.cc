#include "planner/shell/branches.h"

#include <algorithm>

namespace trireme::planner {

bool Joined::runs() const {
  return joint == Joint::kNone || !before || *before == (joint == Joint::kAnd);
}

std::optional<bool> Joined::result(std::optional<bool> last) const {
  const std::optional<bool> own = last && negates ? std::optional(!*last) : last;
  // Where nobody knows whether it ran, one result of two is still sure.
  const bool settles = own && *own == (joint == Joint::kOr);
  return joint == Joint::kNone || before || settles ? own : std::nullopt;
}

bool Branches::active() const {
  return std::all_of(frames_.begin(), frames_.end(), [](const Frame& frame) {
    return frame.runs && (frame.active || frame.condition);
  });
}

bool Branches::undecided() const {
  return std::any_of(frames_.begin(), frames_.end(),
                     [](const Frame& frame) { return frame.undecided || frame.joined.open(); });
}

bool Branches::plain_from(std::size_t first) const {
  return std::all_of(
      frames_.begin() + static_cast<std::ptrdiff_t>(first), frames_.end(), [](const Frame& frame) {
        return frame.kind == Frame::Kind::kCall && frame.joined.joint == Joint::kNone;
      });
}

bool Branches::sure_from(std::size_t first) const {
  return std::none_of(
      frames_.begin() + static_cast<std::ptrdiff_t>(first), frames_.end(), [](const Frame& frame) {
        return frame.undecided || frame.chosen || frame.joined.open() ||
               frame.kind == Frame::Kind::kFunction || frame.kind == Frame::Kind::kSubshell;
      });
}

std::optional<bool> Branches::status(std::optional<bool> last) const {
  const Frame& frame = frames_.back();
  if (frame.kind != Frame::Kind::kIf && frame.kind != Frame::Kind::kCase) {
    return last;
  }
  return frame.open_branches > 0 ? std::nullopt : frame.ran ? last : std::optional(true);
}

bool Branches::in_function() const {
  return std::any_of(frames_.begin(), frames_.end(),
                     [](const Frame& frame) { return frame.kind == Frame::Kind::kFunction; });
}

bool Branches::keyword(std::string_view word, int line) {
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
    frame.ran |= frame.active;
  } else {
    return false;
  }
  return true;
}

bool Branches::is_end(std::string_view word) const {
  if (empty()) {
    return false;
  }
  switch (frames_.back().kind) {
    case Frame::Kind::kIf:
      return word == "fi";
    case Frame::Kind::kCase:
      return word == "esac";
    case Frame::Kind::kLoop:
      return word == "done";
    case Frame::Kind::kFunction:
    case Frame::Kind::kGroup:
      return word == "}";
    case Frame::Kind::kSubshell:
      return word == ")";
    case Frame::Kind::kCall:
      break;
  }
  return false;
}

void Branches::settle(std::optional<bool> result, int line) {
  Frame& frame = top();
  const bool open = !result && !frame.taken && frame.kind != Frame::Kind::kLoop;
  if (open && choice_ >= 0) {
    result = frame.open_branches == choice_;
    frame.chosen = true;
  }
  frame.open_branches += open ? 1 : 0;
  frame.active = !frame.taken && result.value_or(true);
  frame.undecided = frame.active && !result;
  frame.taken = frame.taken || (result && *result);
  frame.ran |= frame.active;
  frame.condition = false;
  const bool counts = std::all_of(frames_.begin(), frames_.end() - 1,
                                  [](const Frame& outer) { return outer.runs && outer.active; });
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

void Branches::ask_around(int line) {
  for (const Frame& frame : frames_) {
    if (frame.joined.open() && frame.runs) {
      ask_whether(frame.joined.after, line);
    }
  }
}

void Branches::ask(const std::string& word) {
  if (!empty() && top().condition) {
    top().question += (top().question.empty() ? "" : " ") + word;
  }
}

}  // namespace trireme::planner
