// Seeded random scripts, run by bash and read by our reader: the words that `run` is given are the
// same, or ours says that it does not know them.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "core/error.h"
#include "planner/shell/script.h"

namespace trireme::planner {
namespace {

// Writes scripts of the constructs that launch scripts are made of.
class Writer {
 public:
  explicit Writer(std::uint64_t seed) : random_(seed) {}

  std::string script() {
    std::string text =
        "A=4 B=2 C=8 D=3 S=ab-cd.ef T='x y'\nL=(5 6 7)\nM=(--tp 2 --pp)\n"
        "declare -A H=([a]=1 [b]=2)\nP=C\nI=1\n";
    const int count = pick(3, 7);
    for (int i = 0; i < count; ++i) {
      text += statement(2) + "\n";
    }
    return text + "run " + words() + "\n";
  }

 private:
  int pick(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }
  std::string one_of(std::initializer_list<const char*> all) {
    return all.begin()[pick(0, static_cast<int>(all.size()) - 1)];
  }
  std::string name() { return one_of({"A", "B", "C", "D"}); }
  std::string number() { return std::to_string(pick(1, 9)); }

  std::string arithmetic(int depth) {
    if (depth == 0 || pick(0, 3) == 0) {
      return one_of({"A",    "B",        "C",     "D",        "I",     "3",  "16",
                     "0x10", "010",      "2#101", "8#17",     "${A}",  "$B", "L[1]",
                     "L[I]", "${#L[@]}", "H[a]",  "${L[-1]}", "L[-1]", "(A)"});
    }
    const std::string a = arithmetic(depth - 1);
    const std::string b = arithmetic(depth - 1);
    switch (pick(0, 9)) {
      case 0:
        return "(" + a + one_of({" ? ", "?"}) + b + " : " + arithmetic(depth - 1) + ")";
      case 1:
        return "(" + a + ", " + b + ")";
      case 2:
        return "(" + name() + one_of({" = ", " += ", " -= ", " *= ", " |= ", "<<="}) + number() +
               ")";
      case 3:
        return one_of({"!", "~", "-", "+", "- -"}) + std::string("(") + a + ")";
      case 4:
        return "(" + one_of({"A++", "++A", "B--", "--B", "C++"}) + " + " + b + ")";
      case 5:
        return "2**(" + number() + "%5)";
      default:
        return "(" + a +
               one_of({" + ", "-", " * ", " / ", "%", " << ", ">>", " & ", "|", "^", " && ", "||",
                       " < ", "<=", " == ", "!=", ">", ">="}) +
               number() + ")";
    }
  }

  std::string value() {
    switch (pick(0, 19)) {
      case 0:
        return "$((" + arithmetic(2) + "))";
      case 1:
        return "$[" + arithmetic(1) + "]";
      case 2:
        return "\"$" + name() + "x\"";
      case 3:
        return one_of(
            {"${L[-1]}", "${L[1]}", "${L[$I]}", "${L[I+1]}", "${L}", "${H[a]}", "${H[b]}"});
      case 4:
        return one_of({"${#L[@]}", "${#S}", "${#A}", "${#H[@]}", "${#M[*]}", "${#L[1]}"});
      case 5:
        return one_of({"$'64'", "$'a\\tb'", "$'it\\'s'", "$\"q\"", "$'\\x41'", "'$A'", "\\$A"});
      case 6:
        return one_of({"${S%.*}", "${S##*-}", "${S#*b}", "${S/-/_}", "${S//[a-c]/z}", "${S/#ab/X}",
                       "${S/%ef/Y}", "${S^^}", "${S^}", "${S:1:2}", "${S: -2}", "${S:I}",
                       "${S:0:-3}", "${S%%[-.]*}", "${S//?d/q}"});
      case 7:
        return one_of({"${U:-7}", "${A:-7}", "${A:+set}", "${U+set}", "${L[9]:-none}", "${V:=5}",
                       "${L[1]:+has}"});
      case 8:
        return one_of({"${!P}", "${!P:-q}", "${!P%8}"});
      case 9:
        return one_of({"$(echo $A)", "`echo $B`", "$(echo \"$T\" | tr ' ' _)",
                       "$(( $(echo 3) + A ))", "$(printf '%02d' $A)", "$(echo $((A*2)))",
                       "$([ $A -gt 3 ] && echo x || echo y)", "$(sed 's/a/Q/' <<< $S)",
                       "$(C=5; echo $C $D | tr 5 6)", "$(echo a b c | wc -w)",
                       "$([[ $S == ab* ]] && echo 1; echo 2)"});
      case 10:
        return one_of({"\"${L[*]}\"", "\"$T\"", "\"a\"'b'c"});
      default:
        return one_of({"1", "2", "16", "$A", "$B", "${C}", "\"$D\"", "x"});
    }
  }

  std::string word() {
    switch (pick(0, 9)) {
      case 0:
        return one_of({"\"${L[@]}\"", "${L[@]}", "\"${M[@]}\"", "${M[*]}", "$T", "\"${L[@]:1}\"",
                       "\"${L[@]:1:1}\"", "\"${L[@]: -1}\"", "\"${L[@]/#/p}\"", "\"${L[@]%5}\"",
                       "\"${!L[@]}\"", "${M[@]:0:2}"});
      case 1:
        return one_of({"{1..3}", "a{b,c}d", "{3..1}", "{01..10..4}", "--x={1,2}", "{a,b{1,2}}",
                       "{}", "{x}", "\"{1,2}\"", "x{$A,$B}"});
      case 2:
        return "--k=" + value();
      default:
        return value();
    }
  }

  std::string words() {
    std::string all;
    const int count = pick(1, 5);
    for (int i = 0; i < count; ++i) {
      all += (i > 0 ? " " : "") + word();
    }
    return all;
  }

  std::string condition() {
    const std::string a = name();
    switch (pick(0, 9)) {
      case 0:
        return "[ $" + a + " -gt " + number() + " ]";
      case 1:
        return "[[ $" + a + " -le " + number() + " && $B != 2 ]]";
      case 2:
        return "(( " + arithmetic(1) + " ))";
      case 3:
        return "[[ $S == " + one_of({"ab*", "\"ab*\"", "*.ef", "ab-cd.ef", "[a-c]*", "*[!f]"}) +
               " ]]";
      case 4:
        return "[ -n \"$" + a + "\" -a $B -lt 5 ]";
      case 5:
        return "! [ $" + a + " = 4 ]";
      case 6:
        return "[[ ! ( $A == 4 || $B == 9 ) ]]";
      case 7:
        return "[ \"$A\" == 4 ] " + one_of({"&&", "||"}) + " [ $B -eq 2 ]";
      case 8:
        return "[[ $A > 3 ]]";
      default:
        return one_of({"true", "false", "[ -z \"$U$A\" ]", "test $A -eq 4"});
    }
  }

  std::string block(int depth) {
    std::string text;
    const int count = pick(1, 2);
    for (int i = 0; i < count; ++i) {
      text += statement(depth - 1) + "\n";
    }
    return text;
  }

  std::string simple() {
    const std::string n = name();
    switch (pick(0, 17)) {
      case 0:
        return "((" + arithmetic(2) + "))";
      case 1:
        return "let " + n + "=" + name() + "*2 " + name() + "+=1";
      case 2:
        return "L+=(" + words() + ")";
      case 3:
        return "L[${#L[@]}]=" + value();
      case 4:
        return "L[" + one_of({"0", "1", "I", "-1", "5", "$I", "I+1"}) + "]" + one_of({"=", "+="}) +
               value();
      case 5:
        return "declare -i K=" + arithmetic(1) + "\nK+=" + number() + "\nM+=($K)";
      case 6:
        return one_of({"export ", "readonly R$RANDOM=1 ", "declare ", "typeset "}) + n + "=" +
               value();
      case 7:
        return n + "+=" + number();
      case 8:
        return "M+=(--" + n + " $" + n + ")";
      case 9:
        return "unset 'L[" + one_of({"0", "1", "-1"}) + "]'";
      case 10:
        return "H[" + one_of({"a", "c", "$S"}) + "]=" + value();
      case 11:
        return "IFS=- read -r A B <<< \"7-" + number() + "-1\"";
      case 12:
        return n + "=9 true $" + n;
      case 13:
        return "(" + n + "=77; " + name() + "=5)";
      case 14:
        return "set -- " + words() + "; M+=($# \"${@:2}\" \"${@: -1}\"); shift; M+=(\"$1\")";
      case 15:
        return "printf -v " + n + " '%s' " + number();
      default:
        return n + "=" + value();
    }
  }

  std::string statement(int depth) {
    if (depth == 0) {
      return simple();
    }
    switch (pick(0, 21)) {
      case 16:
        return joined_function();
      case 17:
        return condition() + one_of({" && ", " || "}) + "{\n" + block(depth) + "}";
      case 18:
        return "{\n" + block(depth) + "} " + one_of({"| true", "&\nwait"}) + "\n" + simple_line() +
               " | true";
      case 19:
        return "[[ $S =~ ^(" + one_of({"ab|x", "[a-z]+", "c*"}) +
               ")(-c(d)?)? ]] && M+=(\"${BASH_REMATCH[@]}\") || M+=(${#BASH_REMATCH[@]})";
      case 20:
        return one_of({"mapfile -t L < <(seq 1 ", "readarray -t L < <(echo "}) + number() + ")";
      case 21:
        return "if " + condition() + "; then " + one_of({"false", "true"}) + "; fi && " +
               simple_line() + " || M+=(not)";
      case 0:
        return "if " + condition() + "; then\n" + block(depth) + "else\n" + block(depth) + "fi";
      case 1:
        return "if " + condition() + "; then\n" + block(depth) + "elif " + condition() +
               "; then\n" + block(depth) + "fi";
      case 2:
        return condition() + one_of({" && ", " || "}) + simple_line();
      case 3:
        return "for X in " + words() + "; do\n" + block(depth) + one_of({"", "M+=($X)\n"}) + "done";
      case 4: {
        const std::string i = "i" + std::to_string(depth);
        return "for ((" + i + "=0; " + i + "<" + number() + "%4; " + i + "++)); do\n" +
               block(depth) + "M+=($" + i + ")\ndone";
      }
      case 5: {
        const std::string w = "W" + std::to_string(depth);
        return w + "=0\nwhile [ $" + w + " -lt 3 ]; do\n " + w + "=$((" + w + "+1))\n" +
               one_of({"", "[ $A -eq 2 ] && continue\n", "[[ $A -gt 3 ]] && break\n"}) +
               block(depth) + "done";
      }
      case 6:
        return "case $" + one_of({"A", "S", "B"}) + " in\n 4|8) " + simple() + " ;;\n ab*) " +
               simple() + one_of({" ;;\n", " ;&\n", " ;;&\n"}) + " [0-9]) " + simple() +
               " ;;\n *) " + simple() + " ;;\nesac";
      case 7:
        return "f" + number() +
               "() { local A=$1 B; B=5; C=$((A+1)); M+=(\"$@\" $#); }\nf1() { :; }\nf" + number() +
               "() { local -i A=2+3; M+=($A); D=7; }\n" + one_of({"f1", "f2", "f3", "f4", "f5"}) +
               " " + words() + " || true";
      case 8:
        return "G=0\nuntil (( ++G > 9 )) || (( A >= 6 )); do ((A++)); " +
               one_of({"M+=(u)", "B=$A"}) + "; done";
      default:
        return simple();
    }
  }

  // One that returns early, or with a status of its own.
  std::string joined_function() {
    const std::string f = "g" + number();
    return f + "() { " + condition() + one_of({" && return", " || return 1", ""}) + "; M+=(" + f +
           " $1); if [ $1 -gt 5 ]; then return " + one_of({"0", "3", ""}) +
           "; fi; for k in 1 2 3; do [ $k = $1 ] && return 2; D=$k; done; " + condition() +
           "; }\n" + one_of({"! ", "", ""}) + f + " " + number() +
           one_of({" && M+=(yes) || M+=(no)", " || D=0", "; M+=($D)"}) + "\nif " + f + " " +
           number() + "; then M+=(y); else M+=(n); fi";
  }

  std::string simple_line() { return name() + "=" + value(); }

  std::mt19937_64 random_;
};

constexpr const char* kUnknown = "not known";

// What our reader says that the last `run` is given.
std::string read_by_us(const std::string& text) {
  try {
    const ShellScript script = read_shell(text, "run.sh", {});
    const bool open = std::any_of(script.loops.begin(), script.loops.end(),
                                  [](const ShellLoop& loop) { return loop.open; });
    if (script.commands.empty() || open || !script.undecided.empty() ||
        !script.variables.unset_words.empty() || !script.variables.unset.empty()) {
      return kUnknown;
    }
    std::string all;
    for (const ShellText& word : script.commands.back().words) {
      if (word.outside || word.lost || word.open_after) {
        return kUnknown;
      }
      all += word.text + "\x1f";
    }
    return all;
  } catch (const Error&) {
    return kUnknown;
  }
}

std::string in_quotes(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return quoted + "'";
}

// What bash gives it, script by script; nothing where a script fails on the way.
std::map<std::size_t, std::string> run_by_bash(const std::vector<std::string>& scripts) {
  const auto path = std::filesystem::path(testing::TempDir()) / "shell_beside_bash.sh";
  std::ofstream file(path);
  file << "run() { printf '%s' \"$N\"; printf '\\x1e'; printf '%s\\x1f' run \"$@\"; printf "
          "'\\x1d'; }\n";
  for (std::size_t i = 0; i < scripts.size(); ++i) {
    file << "( N=" << i << "; export LC_ALL=C; set -f; eval " << in_quotes(scripts[i])
         << " ) 2> \"$0.err\"\n[ -s \"$0.err\" ] && printf '%s\\x1e\\x1d' " << i << "\n";
  }
  file << "rm -f \"$0.err\"\n";
  file.close();
  std::map<std::size_t, std::string> answers;
  FILE* pipe = popen(("timeout 20 bash " + path.string() + " 2>/dev/null").c_str(), "r");
  std::string all;
  std::array<char, 4096> some{};
  for (std::size_t got = 0;
       pipe != nullptr && (got = fread(some.data(), 1, some.size(), pipe)) > 0;) {
    all.append(some.data(), got);
  }
  if (pipe != nullptr) {
    pclose(pipe);
  }
  std::istringstream lines(all);
  for (std::string line; std::getline(lines, line, '\x1d');) {
    const std::size_t cut = line.find('\x1e');
    if (cut != std::string::npos) {
      answers[std::stoul(line.substr(0, cut))] = line.substr(cut + 1);  // nothing after an error
    }
  }
  std::erase_if(answers, [](const auto& answer) { return answer.second.empty(); });
  return answers;
}

std::string readable(std::string words) {
  std::replace(words.begin(), words.end(), '\x1f', '|');
  return words;
}

TEST(ShellBesideBash, RandomScriptsGiveTheSameWordsOrNone) {
  const char* asked = std::getenv("TRIREME_SHELL_SCRIPTS");
  const std::size_t count = asked != nullptr ? std::stoul(asked) : 600;
  std::vector<std::string> scripts;
  for (std::size_t i = 0; i < count; ++i) {
    scripts.push_back(Writer(i + 1).script());
    read_by_us(scripts.back());  // those that bash refuses, too
  }
  const auto right = run_by_bash(scripts);
  if (right.empty()) {
    GTEST_SKIP() << "no bash here";
  }
  std::size_t known = 0;
  for (const auto& [i, words] : right) {
    const std::string ours = read_by_us(scripts[i]);
    known += ours != kUnknown ? 1 : 0;
    if (ours != kUnknown) {
      EXPECT_EQ(readable(ours), readable(words)) << "script " << i << "\n" << scripts[i];
    }
  }
  std::printf("%zu scripts, bash ran %zu to the end, %zu of those known to us\n", count,
              right.size(), known);
  EXPECT_GE(static_cast<double>(known), 0.5 * static_cast<double>(right.size()));
}

}  // namespace
}  // namespace trireme::planner
