# How every target of the project is made: its alias, include root, language level and warnings.

add_library(trireme_warnings INTERFACE)
# Where files are joined (below), a local name may stand over another file's own, and GCC takes each file for a header.
set(joined $<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>)
target_compile_options(trireme_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wconversion;$<$<NOT:${joined}>:-Wshadow>;-Wswitch-enum;-Wold-style-cast;-Wzero-as-null-pointer-constant>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>,${joined}>:-Wno-subobject-linkage>
  # GCC 12 warns of overlapping copies inside std::string where there are none (GCC bug 105651).
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-restrict>
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>
  $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>
  $<$<AND:$<BOOL:${TRIREME_WERROR}>,$<COMPILE_LANGUAGE:CXX>>:-Werror>)

if(TRIREME_SANITIZE)
  # Without no-recover, undefined behaviour is only printed and the test that met it passes.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${TRIREME_SANITIZE};-fno-sanitize-recover=all;-fno-omit-frame-pointer>")
  add_link_options(-fsanitize=${TRIREME_SANITIZE})
endif()

# trireme_uses_regex(compose.cc): under sanitizers GCC 12 warns of memory inside std::regex that is not initialized,
# and is wrong (GCC bug 105616).
function(trireme_uses_regex)
  if(TRIREME_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS -Wno-maybe-uninitialized)
  endif()
endfunction()

# A build from nothing (TRIREME_BUILD_ONCE; not with ccache, which takes file by file) compiles up to 24 files of a
# target as one: what costs there is the same templates of others made anew for every file. So a name of a file's own (in its
# unnamed namespace) stands in one file of a target (tests/own_names_test.cc). Presets dev and tsan compile file by file:
# a file that forgets a header does not compile there.
function(trireme_joined target)
  if(TRIREME_BUILD_ONCE AND NOT TRIREME_CCACHE)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 24)
  endif()
endfunction()

# Commands and rooms that read and write texts are compiled with -O1, and most tests with -O0: what takes time in them is
# the other rooms' code. -O1 costs half as much again to build as -O0.
set(trireme_light_options $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)
set(trireme_test_options $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O0>)

# trireme_library(sim SOURCES engine.cc TEXTS file.cc LINK_PUBLIC trireme::core LINK_PRIVATE fmt::fmt) defines trireme_sim
# and its alias trireme::sim. TEXTS are its sources that read and write texts (target trireme_sim_texts).
function(trireme_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;TEXTS;LINK_PUBLIC;LINK_PRIVATE" ${ARGN})
  add_library(trireme_${name} STATIC ${ARG_SOURCES})
  add_library(trireme::${name} ALIAS trireme_${name})
  set(targets trireme_${name})
  if(ARG_TEXTS)
    add_library(trireme_${name}_texts OBJECT ${ARG_TEXTS})
    target_compile_options(trireme_${name}_texts PRIVATE ${trireme_light_options})
    target_link_libraries(trireme_${name} PRIVATE trireme_${name}_texts)
    list(APPEND targets trireme_${name}_texts)
  endif()
  foreach(target ${targets})
    target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
    target_compile_features(${target} PUBLIC cxx_std_20)
    target_link_libraries(${target} PUBLIC ${ARG_LINK_PUBLIC} PRIVATE ${ARG_LINK_PRIVATE} trireme_warnings)
    trireme_joined(${target})
  endforeach()
endfunction()

# trireme_test(core_test LABELS fast SOURCES units_test.cc LINK trireme::core) builds one GoogleTest program and
# registers it as one test. Labels: fast (the default), slow, gpu. COMPUTES: it runs for long, and half of that in templates
# that both it and the libraries use, of which the linker keeps the test's own (but for tests/common_templates.cc); it
# starts first.
function(trireme_test name)
  cmake_parse_arguments(ARG "COMPUTES" "TIMEOUT" "SOURCES;LINK;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS fast)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 1200)  # ends what hangs; no test is to fail for the machine's load
  endif()
  add_executable(${name} ${ARG_SOURCES} $<TARGET_OBJECTS:common_templates>)
  target_compile_features(${name} PRIVATE cxx_std_20)
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest_main trireme_warnings)
  target_compile_options(${name} PRIVATE $<IF:$<BOOL:${ARG_COMPUTES}>,${trireme_light_options},${trireme_test_options}>)
  target_compile_definitions(${name} PRIVATE TRIREME_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  trireme_joined(${name})
  add_test(NAME ${name} COMMAND ${name})
  # A folder of its own for its files (testing::TempDir()), so that suites of several trees run at once.
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name}.files/)
  file(MAKE_DIRECTORY ${folder})
  set(leaks suppressions=${PROJECT_SOURCE_DIR}/tests/lsan.supp:print_suppressions=0)
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "TEST_TMPDIR=${folder};LSAN_OPTIONS=${leaks}")
  set_tests_properties(${name} PROPERTIES COST $<BOOL:${ARG_COMPUTES}>)
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} SKIP_REGULAR_EXPRESSION "ALL TESTS SKIPPED")
endfunction()

# trireme_embed(models presets FILES presets/gpt2.json ...) compiles text files into the library trireme_models, so
# that the program runs from anywhere. It defines, in namespace trireme::models::embedded (NAMESPACE names another
# than the library's), the function `std::span<const core::EmbeddedFile> presets()`: name without folder and extension,
# and content.
function(trireme_embed library name)
  cmake_parse_arguments(ARG "" "NAMESPACE" "FILES" ${ARGN})
  if(NOT ARG_NAMESPACE)
    set(ARG_NAMESPACE ${library})
  endif()
  set(entries "")
  foreach(file ${ARG_FILES})
    set(path ${CMAKE_CURRENT_SOURCE_DIR}/${file})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
    get_filename_component(stem ${file} NAME_WLE)
    file(READ ${path} content)
    string(APPEND entries "    {\"${stem}\", R\"TRIREME(${content})TRIREME\"sv},\n")
  endforeach()
  list(LENGTH ARG_FILES count)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}_embedded.cc @ONLY CONTENT
"// Generated from ${library}/CMakeLists.txt.
#include <array>
#include <span>

#include \"core/embedded_file.h\"

namespace trireme::${ARG_NAMESPACE}::embedded {
std::span<const core::EmbeddedFile> ${name}();
std::span<const core::EmbeddedFile> ${name}() {
  using namespace std::string_view_literals;  // which know their length: clang does not count that far
  static constexpr std::array<core::EmbeddedFile, ${count}> kFiles = {{
@entries@}};
  return kFiles;
}
}  // namespace trireme::${ARG_NAMESPACE}::embedded
")
  target_sources(trireme_${library} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/${name}_embedded.cc)
endfunction()
