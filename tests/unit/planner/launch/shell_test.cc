#include "planner/shell/script.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/unit/planner/launch/last_command.h"

namespace trireme::planner {
namespace {

TEST(Shell, VariablesDefaultsAndQuotes) {
  EXPECT_EQ(last_command("A=4\nB=${C:-7}\nrun $A \"$B x\" '$A' ${D-9}${A}"), "run|4|7 x|$A|94");
  EXPECT_EQ(last_command("A=4\nA=5 # later wins\nrun $A"), "run|5");
  EXPECT_EQ(last_command("run ${A:=3} $A ${A:+set} ${B:+set}"), "run|3|3|set");
  EXPECT_EQ(last_command("export A=\"x y\"\nrun $A \"$A\""), "run|x|y|x y");
  EXPECT_EQ(last_command("A+=x\nA+=y\nrun $A \"\""), "run|xy|");
}

// Each level starts an expansion of its own; 20,000 of them overflowed the stack.
TEST(Shell, BracketsNestedForEverAreRefused) {
  std::string nested;
  for (int i = 0; i < 20'000; ++i) {
    nested += "${A%";
  }
  EXPECT_THROW(last_command("A=1\nrun " + nested + "x" + std::string(20'000, '}')), Error);
  EXPECT_EQ(last_command("A=abc\nrun ${A%${A#ab}} ${A}"), "run|ab|abc");
}

TEST(Shell, LoopsThatPutInALongBodyEnd) {
  std::string body;
  for (int i = 0; i < 5'000; ++i) {
    body += "X+=a\n";
  }
  EXPECT_NO_THROW(last_command("for i in $(seq 1 2000); do\n" + body + "done\nrun $X"));
}

TEST(Shell, ArraysKeepTheirWords) {
  EXPECT_EQ(
      last_command(
          "TP=2\nA=( --tp $TP # degree\n \"a b\"\n)\nA+=( --c )\nrun \"${A[@]}\" ${#A[@]} ${A[0]}"),
      "run|--tp|2|a b|--c|4|--tp");
  EXPECT_EQ(last_command("A=(1 2)\nrun x\"${A[@]}\"y"), "run|x1|2y");
}

TEST(Shell, Arithmetic) {
  EXPECT_EQ(
      last_command("A=8\nB=4\nrun $((A*B)) $(( ($A + 2) / 3 - -1 )) $(expr $A \\* 2) $((A%3))"),
      "run|32|4|16|2");
  EXPECT_EQ(last_command("run a$((2.5*3))b"), "run|ab");  // what bash refuses is left out
  EXPECT_THROW(last_command("A=0\nrun $((8/A))"), Error);
  // What is not chosen is not worked out: the usual guard of a divisor.
  EXPECT_EQ(last_command("A=0\nN=8\nrun $((A > 0 ? N/A : 1)) $((A == 0 ? 2 : N%A))"), "run|1|2");
  EXPECT_THROW(last_command("run $((9223372036854775807+1))"), Error);
}

TEST(Shell, DivisionByMinusOneIsWorkedOutOrRefused) {
  EXPECT_EQ(last_command("run $((8/-1)) $((7%-1))"), "run|-8|0");
  const std::string least = "A=-9223372036854775807\nA=$((A-1))\n";
  EXPECT_EQ(last_command(least + "run $((A%-1))"), "run|0");
  EXPECT_THROW(last_command(least + "run $((A/-1))"), Error);
}

TEST(Shell, ContinuationsOfWordsAndStrings) {
  EXPECT_EQ(last_command("A=\" \\\n  --x 1 \\\n  --y 2\"\nrun \\\n $A \\\n --z"),
            "run|--x|1|--y|2|--z");
  EXPECT_EQ(last_command("run --a 1 2>&1 | tee log\n"), "tee|log");
  EXPECT_EQ(read_shell("run --a 1 > out.txt 2>&1", "r", {}).commands[0].words.size(), 3U);
  EXPECT_EQ(last_command("cat <<EOF > x\nnot $A \"a word\nEOF\nrun y"), "run|y");
}

TEST(Shell, WordsKnowTheirLines) {
  const ShellScript script = read_shell("A=(\n--x 1\n--y 2\n)\nrun ${A[@]}\n", "r", {});
  EXPECT_EQ(script.commands[0].words[1].lines[0], 2);
  EXPECT_EQ(script.commands[0].words[3].lines[0], 3);
  const ShellScript text = read_shell("A=\" \\\n--x 1 \\\n--y 2\"\nrun $A\n", "r", {});
  EXPECT_EQ(text.commands[0].words[3].lines[0], 3);
}

TEST(Shell, ConditionsThatTheFileDecides) {
  const std::string size =
      "if [ $S = 7B ]; then L=32; elif [[ $S == \"70B\" && -n $S ]]; then L=80; else L=1; fi\nrun "
      "$L";
  EXPECT_EQ(last_command("S=7B\n" + size), "run|32");
  EXPECT_EQ(last_command("S=70B\n" + size), "run|80");
  EXPECT_EQ(last_command("S=1B\n" + size), "run|1");
  EXPECT_EQ(last_command("N=4\nif [ $N -gt 1 ] && [ $N -lt 3 ]; then A=in; else A=out; fi\nrun $A"),
            "run|out");
  EXPECT_EQ(last_command("[ -z \"$X\" ] && X=5\n[ -z \"$X\" ] && X=6\nrun $X"), "run|5");
  EXPECT_EQ(last_command("S=b\ncase $S in\n a) X=1;;\n b|c) X=2;;\n *) X=3;;\nesac\nrun $X"),
            "run|2");
  EXPECT_EQ(last_command("if false; then\n if true; then X=1; fi\nfi\nrun $X"), "run");
}

TEST(Shell, ExpressionsThatATextMatches) {
  const auto decided = [](const std::string& test) {
    return last_command("if [[ " + test + " ]]; then A=yes; else A=no; fi\nrun $A");
  };
  EXPECT_EQ(decided("8 =~ ^[0-9]+$"), "run|yes");
  EXPECT_EQ(decided("8b =~ ^[0-9]+$"), "run|no");
  EXPECT_EQ(decided("llama-70b =~ 7?0b"), "run|yes");
  EXPECT_EQ(decided("axb =~ \"a.b\""), "run|no");  // quoted: a dot is a dot
  EXPECT_EQ(decided("a.b =~ \"a.b\""), "run|yes");
  EXPECT_EQ(decided("! \"--bf16 --tp 2\" =~ \"--fp16\""), "run|yes");
  // What the file does not tell stays a question.
  const ShellScript open = read_shell("if [[ $1 =~ ^a ]]; then A=1; fi\nrun $A", "r", {});
  EXPECT_EQ(open.undecided.size(), 1U);
}

TEST(Shell, OpenConditionsAreReadInOrderAndNamed) {
  const ShellScript script =
      read_shell("TP=2\nif [ $1 = big ]; then\n TP=8\nfi\nrun $TP\n", "r", {});
  EXPECT_EQ(script.commands.back().words[1].text, "8");
  ASSERT_EQ(script.undecided.size(), 1U);
  EXPECT_EQ(script.undecided[0].line, 2);
  EXPECT_EQ(script.undecided[0].text, "[ $1 = big ]");
  // A loop over the command line's arguments does not empty what they would override.
  EXPECT_EQ(last_command(
                "TP=4\nwhile [ $# -gt 0 ]; do case $1 in --tp) TP=$2; shift;; esac; done\nrun $TP"),
            "run|4");
}

TEST(Shell, ExportsAndPrefixesAreTheEnvironment) {
  const ShellScript script = read_shell("A=1\nexport A\nexport B=2\nC=3\nD=4 run x\n", "r", {});
  std::string names;
  for (const ShellExport& variable : script.environment) {
    names += variable.name + variable.value;
  }
  EXPECT_EQ(names, "A1B2D4");
}

TEST(Shell, WhatDoesNotCloseIsRefusedWithItsLine) {
  for (const char* text : {"a\nrun 'x", "a\nrun \"x", "a\nrun ${x", "a\nrun $(x"}) {
    try {
      read_shell(text, "run.sh", {});
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("run.sh:2"), std::string::npos) << error.what();
    }
  }
  std::string doubling = "A=xxxxxxxxxxxxxxxx\n";
  for (int i = 0; i < 60; ++i) {
    doubling += "A=$A$A\n";
  }
  EXPECT_THROW(read_shell(doubling, "r", {}), Error);
}

TEST(Shell, OutputOfCommandsOverKnownText) {
  EXPECT_EQ(last_command("run $(echo a b | tr ' ' '\\n' | head -n 1) $(echo -n x)y"), "run|a|xy");
  EXPECT_EQ(last_command("A=8,16\nrun $(echo $A | cut -d, -f2) $(echo 'a b c' | awk '{print $2}')"),
            "run|16|b");
  EXPECT_EQ(last_command("run $(printf '%s-' 1 2) $(seq 1 3 | xargs) $(echo ab | sed 's/b/c/')"),
            "run|1-2-|1|2|3|ac");
  EXPECT_EQ(last_command("run `basename /x/y.sh .sh` $(dirname /x/y.sh)"), "run|y|/x");
  // What only a run would tell is left out, without touching the rest.
  EXPECT_EQ(last_command("run a $(hostname -I | awk '{print $1}') b"), "run|a|b");
  EXPECT_EQ(last_command("run $(echo $(( 2*4 ))) $(echo $(echo $(echo deep)))"), "run|8|deep");
}

// Which card a script is started on was open where it asks for Ascend's module: every branch was
// read, and the last one was the NPU's.
TEST(Shell, ScriptsThatAskForAnNpuAreReadForGpus) {
  EXPECT_EQ(last_command("D=${D:-$(python3 -c 'import torch_npu' 2>/dev/null && echo npu || echo "
                         "gpu)}\ncase $D in gpu) TP=2 ;; npu) TP=8 ;; esac\nrun $TP $D"),
            "run|2|gpu");
  EXPECT_EQ(last_command("run a $(python3 -c 'import torch' && echo b || echo c)"), "run|a");
}

TEST(Shell, ValuesChangedByTheirExpansion) {
  EXPECT_EQ(last_command("F=a/b/run.tar.gz\nrun ${F%/*} ${F##*/} ${F%%.*} ${F/b/c} ${F//a/A}"),
            "run|a/b|run.tar.gz|a/b/run|a/c/run.tar.gz|A/b/run.tAr.gz");
  EXPECT_EQ(last_command("F=Llama\nrun ${F,,} ${F^^} ${F:1:3} ${F: -2} ${F:?missing}"),
            "run|llama|LLAMA|lam|ma|Llama");
}

TEST(Shell, WordsOfTheScriptAndOfItsFunctions) {
  const auto last = [](const std::string& text, std::vector<std::string> words) {
    const ShellScript script = read_shell(text, "run.sh", {.words = std::move(words)});
    std::string all;
    for (const ShellText& word : script.commands.back().words) {
      all += (all.empty() ? "" : "|") + word.text;
    }
    return all;
  };
  EXPECT_EQ(last("A=$1; shift\nrun $A $# \"$@\" ${2:-none}", {"x", "y"}), "run|x|1|y|none");
  EXPECT_EQ(last("run ${@:2} $4 $0", {"x", "y", "z"}), "run|y|z|run.sh");
  EXPECT_EQ(last("f() {\n A=$1\n}\nrun $1", {"x"}), "run|x");
  EXPECT_EQ(last("if [ $1 = b ]; then A=1; else A=2; fi\nrun $A", {"a"}), "run|2");
}

TEST(Shell, FilesThatAScriptSources) {
  const ShellWorld world{.read = [](const std::string& name) {
    return name == "a.sh"   ? std::optional<std::string>("source b.sh\nA=1")
           : name == "b.sh" ? std::optional<std::string>("\nB=2 # second line")
           : name == "c.sh" ? std::optional<std::string>("source c.sh")
                            : std::nullopt;
  }};
  const ShellScript script = read_shell("source a.sh\n. gone.sh\nrun $A $B\n", "r", world);
  EXPECT_EQ(script.commands.back().words[2].text, "2");
  EXPECT_EQ(script.commands.back().words[2].lines[0], 2 * kLinesOfFile + 2);  // of the second file
  EXPECT_EQ(script.variables.files, (std::vector<std::string>{"a.sh", "b.sh"}));
  ASSERT_EQ(script.unread.size(), 1U);
  EXPECT_EQ(script.unread[0].name, "gone.sh");
  EXPECT_LE(read_shell("source c.sh", "r", world).variables.files.size(), 40U);  // it ends
}

// A file that the script writes, and that reads itself, was read without end; a second text for it
// was not seen.
TEST(Shell, FilesThatAScriptWritesAndWritesAgain) {
  const auto read = [](const std::string& text) { return read_shell(text, "run.sh", {}); };
  EXPECT_LE(read("cat > e.sh <<EOF\n. e.sh\nEOF\n. e.sh\n").variables.files.size(), 40U);
  const std::string first = "cat > a.txt <<EOF\n--tp 2\nEOF\n";
  EXPECT_EQ(last_command(first + "cat >> a.txt <<EOF\n--pp 4\nEOF\nrun $(cat a.txt)\n"),
            "run|--tp|2|--pp|4");
  const ShellScript other = read(first + "python3 make.py > a.txt\nrun $(cat a.txt)\n");
  for (const ShellText& word : other.commands.back().words) {
    EXPECT_EQ(word.text.find("--tp"), std::string::npos);
  }
}

// A launcher whose body the script writes itself was no command at all.
TEST(Shell, FilesThatAScriptWritesAndStarts) {
  const std::string wrote = "N=8\ncat > launch.sh <<EOF\nrun --n $N\nEOF\n";
  EXPECT_EQ(last_command(wrote + "bash launch.sh"), "run|--n|8");
  EXPECT_EQ(last_command(wrote + "srun --nodes 2 bash ./launch.sh"), "run|--n|8");
  EXPECT_EQ(last_command(wrote + "chmod +x launch.sh\n./launch.sh"), "run|--n|8");
  EXPECT_EQ(last_command("bash launch.sh"), "bash|launch.sh");
}

TEST(Shell, OneBranchOfEachOpenCondition) {
  const std::string text =
      "if [ $1 = a ]; then X=1; elif [ $1 = b ]; then X=2; else X=3; fi\nrun $X";
  const auto chosen = [&](int choice) {
    return read_shell(text, "r", {.choice = choice}).commands.back().words[1].text;
  };
  EXPECT_EQ(chosen(0), "1");
  EXPECT_EQ(chosen(1), "2");
  EXPECT_EQ(chosen(2), "3");
  EXPECT_EQ(chosen(-1), "3");
}

TEST(Shell, ArithmeticCommandsDecideBranches) {
  EXPECT_EQ(last_command("PP=2\nif (( PP > 1 )); then A=x; else A=y; fi\nrun $A"), "run|x");
  EXPECT_EQ(last_command("PP=1\nif ((PP>1)); then A=x; else A=y; fi\nrun $A"), "run|y");
  EXPECT_EQ(last_command("A=y N=4\n((N >= 4 && N % 2 == 0)) && A=x\nrun $A"), "run|x");
  EXPECT_EQ(last_command("A=y N=4\n(( N != 4 || !1 )) && A=x\nrun $A $((N <= 4))"), "run|y|1");
  const ShellScript open = read_shell("if (( N > $1 )); then A=x; fi\nrun $A", "run.sh", {});
  EXPECT_EQ(open.undecided.size(), 1U);
}

TEST(Shell, AssociativeArraysAndElements) {
  EXPECT_EQ(last_command("declare -A L=([7B]=32 [13B]=40)\nS=13B\nrun ${L[$S]} ${L[7B]}"),
            "run|40|32");
  EXPECT_EQ(last_command("declare -A L\nL[7B]=32\nL[13B]=40\nL[7B]=33\nrun ${L[7B]} ${L[13B]}"),
            "run|33|40");
  EXPECT_EQ(last_command("A=(1 2)\nA[1]=5\nA[2]=6\ni=1\nrun ${A[$i]} ${A[@]}"), "run|5|1|5|6");
}

TEST(Shell, AFunctionHasTheWordsOfItsCall) {
  EXPECT_EQ(last_command("go() {\n  local tp=$1 pp=$2\n  run --tp $tp --pp ${pp} $#\n}\ngo 2 4"),
            "run|--tp|2|--pp|4|2");
  EXPECT_EQ(last_command("function go {\n  run \"$@\"\n}\ngo a b\ngo c"), "run|c");
  EXPECT_EQ(last_command("set -- x y\ngo() { A=$1; }\ngo z\nrun $A $1"), "run|z|x");
  EXPECT_EQ(last_command("go() { run $1; }\nif [ 1 = 2 ]; then go a; fi\nrun b"), "run|b");
  // Nobody calls it: read where it stands, with words that are not known.
  EXPECT_EQ(last_command("go() {\n  run a\n}"), "run|a");
  // One that calls itself ends.
  EXPECT_FALSE(last_command("go() { run $1; go $1; }\ngo 3").empty());
}

TEST(Shell, LetPrintfAndBcSetVariables) {
  EXPECT_EQ(last_command("N=4\nlet A=N*2 B=3\nrun $A $B"), "run|8|3");
  EXPECT_EQ(last_command("printf -v A -- \"--mb %d --gb %d\" 1 128\nrun $A"),
            "run|--mb|1|--gb|128");
  EXPECT_EQ(last_command("A=$(echo \"32*4\" | bc)\nrun $A"), "run|128");
  EXPECT_EQ(last_command("A=$(echo \"scale=2; 1/3\" | bc)\nrun x$A"), "run|x");
}

// The hosts of a Slurm job were taken for arguments of the training that could not be worked out.
TEST(Shell, AnArrayOfHostsIsNoArgument) {
  const ShellScript hosts = read_shell(
      "nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )\nhead=${nodes[0]}\n"
      "torchrun --rdzv_endpoint=$head:29500 train.py --tp 2",
      "run.sh", {});
  EXPECT_TRUE(hosts.variables.unset_words.empty());
  const ShellScript used =
      read_shell("extra=( $(cat more.txt) )\ntorchrun train.py --tp 2 ${extra[@]}", "run.sh", {});
  ASSERT_EQ(used.variables.unset_words.size(), 1U);
  EXPECT_TRUE(used.variables.unset_words.front().command);
}

TEST(Shell, AScriptThatAShellIsFedIsRead) {
  EXPECT_EQ(last_command("srun bash <<'EOF'\nrun --tp 2\nEOF\n"), "run|--tp|2");
  EXPECT_EQ(last_command("cat > x.json <<EOF\nrun --tp 2\nEOF\nrun --tp 4\n"), "run|--tp|4");
  EXPECT_EQ(last_command("ssh host bash -s <<EOF\nrun a\nEOF\nA=b\nrun $A\n"), "run|b");
}

// Lists of layers with experts were "[]": the body of a loop was read once.
TEST(Shell, LoopsThatAddUpAreReadRoundByRound) {
  const std::string body =
      "do\n if (( i < K )); then\n  arr+=(0)\n else\n  arr+=(1)\n fi\ndone\n"
      "printf -v F \"[%s]\" \"$(IFS=', '; echo \"${arr[*]}\")\"\nrun $F\n";
  EXPECT_EQ(last_command("N=4\nK=1\narr=()\nfor ((i=0; i<N; i++)); " + body), "run|[0,1,1,1]");
  EXPECT_EQ(last_command("K=2\narr=()\nfor i in $(seq 0 3); " + body), "run|[0,0,1,1]");
  EXPECT_EQ(last_command("L=\nfor (( i = 3; i > 0; i -= 2 )); do L=\"$L$i\"; done\nrun $L"),
            "run|31");
  EXPECT_EQ(last_command("L=\nfor a in x y; do for b in 1 2; do L+=\"$a$b.\"; done; done\nrun $L"),
            "run|x1.x2.y1.y2.");
  // A loop without an end ends, and one that starts trainings starts all of them.
  EXPECT_FALSE(last_command("L=\nfor ((;1;)); do L+=1; done\nrun $L").empty());
  const ShellScript sweep =
      read_shell("for tp in 1 2; do A+=x; torchrun t.py --tp $tp; done", "run.sh", {});
  EXPECT_EQ(sweep.loops.size(), 1U);
  ASSERT_EQ(sweep.commands.size(), 2U);
  EXPECT_EQ(sweep.commands[1].words.back().text, "2");
  EXPECT_EQ(sweep.commands[1].round, "tp=2");
}

// Operators, literals and assignments of bash's arithmetic were not known, or 010 was ten.
TEST(Shell, EveryOperatorAndLiteralOfArithmetic) {
  EXPECT_EQ(last_command("run $((2**6)) $((1<<6)) $((8#100)) $((010)) $((0x40)) $[8*8]"),
            "run|64|64|64|8|64|64");
  EXPECT_EQ(last_command("A=3\nrun $((B=A*2, B+1)) $B $((A++)) $A $((A>3?1:0)) $((A&5|8))"),
            "run|7|6|3|4|1|12");
  EXPECT_THROW(last_command("N=08\nrun $((N+1))"), Error);  // bash: value too great for base
  EXPECT_EQ(last_command("((A=N*2))\nrun x$A"), "run|x");   // N is not known, and so A is not
  EXPECT_EQ(last_command("A=5\n((A=$(nproc)*2))\nrun x$A"), "run|x");
}

// ${A[-1]} was empty, A[${#A[@]}]= fell into a wrong place, slices cut characters.
TEST(Shell, ElementsFromTheEndSlicesAndGaps) {
  EXPECT_EQ(
      last_command("A=(1 2 3)\nA[${#A[@]}]=4\nA+=(5 6)\nrun ${A[-1]} \"${A[@]:1:2}\" ${#A[@]}"),
      "run|6|2|3|6");
  EXPECT_EQ(last_command("A=(1 2)\nA[9]=x\nunset 'A[0]'\nrun ${A[@]} ${!A[@]} ${A[9]}"),
            "run|2|x|1|9|x");
  EXPECT_EQ(last_command("A=(1 \"\" 3)\nrun \"${A[@]}\" ${A[@]} \"\""), "run|1||3|1|3|");
}

TEST(Shell, EvalOfAssignmentsAndTheEndOfAScript) {
  EXPECT_EQ(last_command("A=2\neval \"A=4\"\nrun $A"), "run|4");
  EXPECT_EQ(last_command("N=A\neval $N=3 B=5\nrun $A $B"), "run|3|5");
  EXPECT_EQ(last_command("run a\nexit 0\nrun b"), "run|a");
}

TEST(Shell, QuotesBehindADollarAndWordsInBraces) {
  EXPECT_EQ(last_command("run $'64' $'a\\'b' $\"c\" --tp={1,2} {1..3}"),
            "run|64|a'b|c|--tp=1|--tp=2|1|2|3");
}

// What declare and local say of a name was passed over: numbers were joined as text, a function's
// own variables were its caller's.
TEST(Shell, AttributesOfNames) {
  EXPECT_EQ(last_command("declare -i A=2*3\nA+=4\nrun $A"), "run|10");
  EXPECT_EQ(last_command("A=1\nf() { local A=5 B=6; C=$A; }\nf\nrun $A x$B $C"), "run|1|x|5");
  EXPECT_EQ(last_command("readonly A=1\nA=2\nrun $A"), "run|1");
  EXPECT_EQ(last_command("A=1\nunset A\nrun x${A:-2}"), "run|x2");
  EXPECT_EQ(last_command("A=1\nA=2 run $A\nrun $A"), "run|1");
  EXPECT_EQ(last_command("A=1\n(A=2)\nrun $A"), "run|1");
}

TEST(Shell, NegatedAndCompoundConditions) {
  EXPECT_EQ(last_command("A=1\nif ! [ $A = 1 ]; then B=x; else B=y; fi\nrun $B"), "run|y");
  EXPECT_EQ(last_command("N=4\n[[ $N > 4 || ( $N == [0-9] && ! $N == 3 ) ]] && B=x\nrun $B"),
            "run|x");
  EXPECT_EQ(last_command("B=y\n[ $(nproc) -gt 4 ] && B=x\nrun $B"), "run|x");
  EXPECT_EQ(read_shell("B=y\n[ $(nproc) -gt 4 ] && B=x\nrun $B", "r", {}).undecided.size(), 1U);
}

// A loop was read once in silence: what its body put together was that of one round.
TEST(Shell, LoopsAreReadToTheirEndOrSayThatTheyWereNot) {
  EXPECT_EQ(last_command("N=1\nwhile [ $N -lt 60 ]; do N=$((N*2)); done\nrun $N"), "run|64");
  EXPECT_EQ(
      last_command("for i in 1 2 3 4; do [ $i = 2 ] && continue; [ $i = 4 ] && break; A+=($i); "
                   "done\nrun ${A[@]}"),
      "run|1|3");
  const ShellScript open =
      read_shell("for i in $(seq $(nproc)); do ARGS+=(--x $i); done\nrun \"${ARGS[@]}\"", "r", {});
  ASSERT_EQ(open.loops.size(), 1U);
  EXPECT_TRUE(open.loops[0].open && open.loops[0].holds_arguments);
}

// `wc -l` of what only a run tells, less two, was -2.
TEST(Shell, ArithmeticOverWhatIsNotKnownIsNotKnown) {
  EXPECT_EQ(last_command("N=$(($(nvidia-smi | wc -l)-2))\nrun x$N"), "run|x");
  EXPECT_EQ(last_command("N=$(nproc)\nB=$(( 8 - $N ))\nrun x$B"), "run|x");
  EXPECT_EQ(last_command("N=${1:-4}\nrun $((N * 2))"), "run|8");
}

TEST(Shell, QuotesInsideBackticksInsideQuotesClose) {
  EXPECT_EQ(last_command("A=\" --lr `bc <<< \"scale=3; 1/10\"` --tp 2\"\nrun $A"),
            "run|--lr|--tp|2");
}

}  // namespace
}  // namespace trireme::planner
