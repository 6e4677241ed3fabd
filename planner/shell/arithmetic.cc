// $((A*B)) and ((A > B)): every operator of bash (manual, Shell Arithmetic) by recursive descent.
// What rests on a variable that the file does not set is not known, and neither is what it is
// assigned to.
#include <fmt/format.h>

#include "core/error.h"
#include "planner/shell/arithmetic_operators.h"
#include "planner/shell/arrays.h"
#include "planner/shell/built_in.h"
#include "planner/shell/names.h"
#include "planner/shell/tokens.h"
#include "planner/shell/value.h"

namespace trireme::planner {
namespace {

constexpr int kArithmeticDepthMax = 100;

// Binary operators from the loosest to the tightest; `**` stands apart, for it binds to the right.
constexpr std::string_view kLevels[][4] = {
    {"||"},       {"&&"},     {"|"},          {"^"}, {"&"}, {"==", "!="}, {"<=", ">=", "<", ">"},
    {"<<", ">>"}, {"+", "-"}, {"*", "/", "%"}};
constexpr std::size_t kLevelCount = std::size(kLevels);

class Arithmetic {
 public:
  Arithmetic(ShellVariables& variables, std::string_view text, int line, int depth)
      : variables_(variables), text_(text), line_(line), depth_(depth) {}

  Number run() {
    skip_blanks();
    if (at_ == text_.size()) {
      return {};
    }
    const Number number = list();
    skip_blanks();
    return bad_ || at_ != text_.size() ? kUnknown : number;
  }

 private:
  struct Place {  // NAME or NAME[SUBSCRIPT]
    std::string name, subscript;
  };

  [[noreturn]] void fail(std::string_view what) const {
    throw Error(place_of(variables_, line_), fmt::format("$(({})) {}", text_, what));
  }

  // Nothing that is read here happens for sure.
  [[nodiscard]] bool happens() const { return skipped_ == 0 && unsure_ == 0 && !bad_; }

  void skip_blanks() {
    while (at_ < text_.size() && std::string_view(" \t\n\\").find(text_[at_]) != kNotFound) {
      ++at_;
    }
  }

  bool take(std::string_view op) {
    skip_blanks();
    const bool here = text_.substr(at_).starts_with(op);
    at_ += here ? op.size() : 0;
    return here;
  }

  // An operator that is not the beginning of a longer one.
  bool take_operator(std::string_view op) {
    skip_blanks();
    const std::string_view rest = text_.substr(at_);
    if (!rest.starts_with(op)) {
      return false;
    }
    const char next = rest.size() > op.size() ? rest[op.size()] : ' ';
    const bool compares = op == "==" || op == "!=" || op == "<=" || op == ">=";
    const bool doubled =
        op.size() == 1 && next == op[0] && std::string_view("|&<>*").find(next) != kNotFound;
    if (doubled || (next == '=' && !compares)) {
      return false;
    }
    at_ += op.size();
    return true;
  }

  Number list() {
    if (++depth_ > kArithmeticDepthMax) {
      fail("has too many brackets");
    }
    Number number = assignment();
    while (!bad_ && take(",")) {
      number = assignment();
    }
    --depth_;
    return number;
  }

  std::optional<Place> take_place() {
    skip_blanks();
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name_character(text_[at_])) {
      ++at_;
    }
    Place place{std::string(text_.substr(begin, at_ - begin)), ""};
    if (!is_shell_name(place.name)) {
      at_ = begin;
      return {};
    }
    if (at_ < text_.size() && text_[at_] == '[') {
      const std::size_t end = after_bracket(text_, at_);
      if (end == kNotFound) {
        bad_ = true;
        return {};
      }
      place.subscript = std::string(text_.substr(at_ + 1, end - at_ - 2));
      at_ = end;
    }
    return place;
  }

  // NAME = … and its kin, else an expression.
  Number assignment() {
    constexpr std::string_view kAssigns[] = {
        "<<=", ">>=", "+=", "-=", "*=", "/=", "%=", "&=", "^=", "|=", "="};
    const std::size_t begin = at_;
    if (const auto place = take_place()) {
      skip_blanks();
      for (const std::string_view op : kAssigns) {
        if (text_.substr(at_).starts_with(op) && text_.substr(at_, 2) != "==") {
          at_ += op.size();
          if (++depth_ > kArithmeticDepthMax) {
            fail("has too many assignments");
          }
          Number right = assignment();
          --depth_;
          const std::string_view binary = op.substr(0, op.size() - 1);
          right = binary.empty() ? right : apply(binary, value_of(*place), right);
          store(*place, right);
          return right;
        }
      }
    }
    at_ = begin;
    return choice();
  }

  // A > B ? C : D
  Number choice() {
    const Number condition = binary(0);
    if (bad_ || !take("?")) {
      return condition;
    }
    const Number yes = branch(condition, true);
    bad_ = bad_ || !take(":");
    if (++depth_ > kArithmeticDepthMax) {
      fail("has too many questions");
    }
    const Number no = branch(condition, false);
    --depth_;
    return !condition.known ? kUnknown : condition.value != 0 ? yes : no;
  }

  Number branch(Number condition, bool when) {
    int& where = condition.known ? skipped_ : unsure_;
    const int entered = !condition.known || (condition.value != 0) != when ? 1 : 0;
    where += entered;
    const Number number = when ? list() : choice();
    where -= entered;
    return number;
  }

  Number binary(std::size_t level) {
    if (level == kLevelCount) {
      return power();
    }
    Number left = binary(level + 1);
    for (bool found = true; found && !bad_;) {
      found = false;
      for (const std::string_view op : kLevels[level]) {
        if (!op.empty() && take_operator(op)) {
          left = level < 2 ? joined(left, level == 0) : apply(op, left, binary(level + 1));
          found = true;
          break;
        }
      }
    }
    return left;
  }

  // || (`either`) and &&, whose right side counts only where the left leaves the answer open.
  Number joined(Number left, bool either) {
    const std::size_t inner = either ? 1 : 2;
    const bool decided = left.known && (left.value != 0) == either;
    int& where = left.known ? skipped_ : unsure_;
    const int entered = decided || !left.known ? 1 : 0;
    where += entered;
    const Number right = binary(inner);
    where -= entered;
    if (decided || (right.known && (right.value != 0) == either)) {
      return {either ? 1 : 0, true};
    }
    return left.known && right.known ? Number{either ? 0 : 1, true} : kUnknown;
  }

  Number power() {
    const Number base = unary();
    if (bad_ || !take("**")) {
      return base;
    }
    if (++depth_ > kArithmeticDepthMax) {
      fail("has too many powers");
    }
    const Number exponent = power();
    --depth_;
    return apply("**", base, exponent);
  }

  Number apply(std::string_view op, Number left, Number right) {
    std::string wrong;
    const Number number = bad_ ? kUnknown : worked_out(op, left, right, wrong);
    return checked(number, wrong);
  }

  // An error counts where it would happen.
  Number checked(Number number, const std::string& wrong) {
    if (!wrong.empty() && happens()) {
      fail(wrong);
    }
    return wrong.empty() ? number : kUnknown;
  }

  Number unary() {
    if (++depth_ > kArithmeticDepthMax) {
      fail("has too many brackets");
    }
    const Number number = signed_or_atom();
    --depth_;
    return number;
  }

  Number signed_or_atom() {
    skip_blanks();
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with("++") || rest.starts_with("--")) {
      const std::size_t begin = at_;
      at_ += 2;
      if (const auto place = take_place()) {
        return changed(*place, rest[0], true);
      }
      at_ = begin;
    }
    if (rest.starts_with("!") && !rest.starts_with("!=")) {
      ++at_;
      const Number number = unary();
      return {number.value == 0 ? 1 : 0, number.known};
    }
    if (rest.starts_with("~")) {
      ++at_;
      const Number number = unary();
      return {~number.value, number.known};
    }
    if (rest.starts_with("+") || rest.starts_with("-")) {
      ++at_;
      const Number number = unary();
      return rest[0] == '+' ? number : apply("-", Number{}, number);
    }
    return atom();
  }

  Number atom() {
    if (take("(")) {
      const Number number = list();
      bad_ = bad_ || !take(")");
      return number;
    }
    if (const auto place = take_place()) {
      skip_blanks();
      const std::string_view rest = text_.substr(at_);
      if (rest.starts_with("++") || rest.starts_with("--")) {
        at_ += 2;
        return changed(*place, rest[0], false);
      }
      return value_of(*place);
    }
    const std::size_t begin = at_;
    if (!bad_ && at_ < text_.size() && text_[at_] == '$') {
      return take_unknown();
    }
    while (at_ < text_.size() &&
           (is_name_character(text_[at_]) || text_[at_] == '#' || text_[at_] == '@')) {
      ++at_;
    }
    std::string wrong;
    const auto number = literal_number(text_.substr(begin, at_ - begin), wrong);
    bad_ = bad_ || (!number && wrong.empty());
    return checked(number.value_or(kUnknown), wrong);
  }

  // $NAME, ${…} and $(…) where the text was not worked out because something in it is not known.
  Number take_unknown() {
    ++at_;
    if (at_ < text_.size() && (text_[at_] == '(' || text_[at_] == '{')) {
      const std::size_t end = after_bracket(text_, at_);
      bad_ = bad_ || end == kNotFound;
      at_ = bad_ ? at_ : end;
    } else {
      const std::size_t begin = at_;
      while (at_ < text_.size() && is_name_character(text_[at_])) {
        ++at_;
      }
      at_ += at_ == begin && at_ < text_.size() ? 1U : 0U;  // $@, $#
    }
    return kUnknown;
  }

  [[nodiscard]] ElementPlace element(const Place& place) {
    ShellText subscript = plain_text(place.subscript, line_);
    if (place.subscript.find('$') != std::string::npos) {
      subscript = expand(variables_, place.subscript, line_);
    }
    return place_of_element(variables_, place.name, subscript);
  }

  // A variable's text is an expression of its own; one that the file does not set may be set by
  // whoever starts it.
  Number value_of(const Place& place) {
    if (skipped_ > 0 || !variables_.known.contains(place.name)) {
      return kUnknown;
    }
    const ElementPlace at = element(place);
    const ShellVariable& variable = variables_.known.find(place.name)->second;
    if (!at.known) {
      return kUnknown;
    }
    if (!at.at) {
      return {};
    }
    const ShellText& text = variable.values[*at.at];
    if (text.outside || text.lost || text.open_after) {
      return kUnknown;
    }
    if (depth_ + 1 > kArithmeticDepthMax) {
      fail("has too many variables that name each other");
    }
    const std::string own = text.text;
    if (const auto number = plain_number(own)) {  // also the least one, which has no positive
      return {*number, true};
    }
    return Arithmetic(variables_, own, line_, depth_ + 1).run();
  }

  Number changed(const Place& place, char sign, bool first) {
    const Number before = value_of(place);
    const Number after = apply(sign == '+' ? "+" : "-", before, Number{1, true});
    store(place, after);
    return first ? after : before;
  }

  void store(const Place& place, Number number) {
    if (skipped_ > 0 || bad_) {
      return;
    }
    const bool known = number.known && unsure_ == 0;
    ShellText text = plain_text(known ? std::to_string(number.value) : "", line_);
    text.outside = text.lost = !known;
    Assignment given{place.name, {}, ShellVariable{{std::move(text)}, false}};
    if (!place.subscript.empty()) {
      given.key = plain_text(place.subscript, line_);
      given.has_key = true;
    }
    assign(std::move(given), variables_);
  }

  ShellVariables& variables_;
  std::string_view text_;
  int line_;
  std::size_t at_ = 0;
  int depth_;
  int skipped_ = 0;  // branches not taken that what is read stands in: there nothing happens
  int unsure_ = 0;   // branches that may be taken
  bool bad_ = false;
};

}  // namespace

std::optional<std::int64_t> shell_arithmetic(ShellVariables& variables, std::string_view expression,
                                             int line) {
  const Number number = Arithmetic(variables, expression, line, 0).run();
  return number.known ? std::optional(number.value) : std::nullopt;
}

std::optional<std::int64_t> raw_arithmetic(ShellVariables& variables, std::string_view raw,
                                           int line) {
  const ShellText text = expand(variables, raw, line);
  return shell_arithmetic(variables, text.lost || text.outside ? raw : std::string_view(text.text),
                          line);
}

}  // namespace trireme::planner
