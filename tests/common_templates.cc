// Templates of others that the tests and the libraries both use, made with -O1. Tests are compiled
// with -O0 and come before the libraries in a link, and the linker keeps the first copy of a
// template: this file comes first of all, so that the libraries run under tests about as fast as in
// the program.
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

template class std::basic_string<char>;
template class std::vector<std::string>;
template class nlohmann::basic_json<>;
template class std::vector<nlohmann::json>;
template class std::map<std::string, nlohmann::json, std::less<>>;
// Whole files are read so.
template class std::istreambuf_iterator<char>;
template std::string::basic_string(std::istreambuf_iterator<char>, std::istreambuf_iterator<char>,
                                   const std::allocator<char>&);
