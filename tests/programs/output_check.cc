// output_check RANKS LINES [SLOW_BYTES BYTES_PER_SECOND] < CONSOLE: every line has a label, and what each rank wrote
// is, byte for byte, the OutputStream of output_flood. Reads the first SLOW_BYTES no faster than BYTES_PER_SECOND.
// Prints the number of bytes and a hash for each rank; ends with 1 and a sentence at the first difference.
//
// output_check --files DIR RANKS LINES: the same for DIR/rank.NN/stdout, which have no labels.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/programs/output_stream.h"

namespace {

// Compares what arrives of one rank with what it wrote.
class Expected {
 public:
  Expected(unsigned rank, unsigned lines) : rank_(rank), stream_(rank, lines) {}

  bool take(std::string_view bytes) {
    for (const char byte : bytes) hash_ = (hash_ ^ static_cast<unsigned char>(byte)) * 0x100000001B3ULL;
    while (!bytes.empty()) {
      if (at_ == line_.size()) {
        at_ = 0;
        line_.clear();
        if (!stream_.next(&line_)) return differs("more than it wrote");
        hash_stream();
      }
      const std::size_t size = std::min(bytes.size(), line_.size() - at_);
      if (std::memcmp(bytes.data(), line_.data() + at_, size) != 0) return differs("other bytes than it wrote");
      bytes.remove_prefix(size);
      at_ += size;
      count_ += size;
    }
    return true;
  }

  bool is_at_last_byte() {
    if (at_ != line_.size()) return false;
    std::string more;
    OutputStream ahead = stream_;
    return !ahead.next(&more);
  }

  bool finish() {
    if (!is_at_last_byte()) return differs("less than it wrote");
    if (hash_ != wrote_) return differs("another hash");
    std::printf("rank %u: %zu bytes, %016llx\n", rank_, count_, static_cast<unsigned long long>(hash_));
    return true;
  }

 private:
  static constexpr std::uint64_t kHashStart = 0xCBF29CE484222325ULL;

  void hash_stream() {
    for (const char byte : line_) wrote_ = (wrote_ ^ static_cast<unsigned char>(byte)) * 0x100000001B3ULL;
  }

  bool differs(const char* how) const {
    std::printf("rank %u, byte %zu: %s\n", rank_, count_, how);
    return false;
  }

  unsigned rank_;
  OutputStream stream_;
  std::string line_;
  std::size_t at_ = 0;
  std::size_t count_ = 0;
  std::uint64_t hash_ = kHashStart;   // of what arrived
  std::uint64_t wrote_ = kHashStart;  // of the lines begun; the same at the end
};

using Ranks = std::vector<Expected>;

Ranks make_ranks(unsigned count, unsigned lines) {
  Ranks ranks;
  for (unsigned rank = 0; rank < count; ++rank) ranks.emplace_back(rank, lines);
  return ranks;
}

bool finish(Ranks* ranks) {
  for (Expected& each : *ranks) {
    if (!each.finish()) return false;
  }
  return true;
}

// One line with its label and its end.
bool take_line(Ranks* ranks, std::string_view line) {
  char* after = nullptr;
  const std::string_view label = "]<stdout>:";
  if (line.size() < 2 || line.front() != '[') return std::printf("a line without label\n"), false;
  const auto rank = std::strtoul(line.data() + 1, &after, 10);
  const auto used = static_cast<std::size_t>(after - line.data());
  if (rank >= ranks->size() || line.substr(used, label.size()) != label) return std::printf("an odd label\n"), false;
  line.remove_prefix(used + label.size());
  Expected& expected = (*ranks)[rank];
  // The newline that ends a last line without one is the launcher's.
  if (line.back() == '\n' && !expected.take(line.substr(0, line.size() - 1))) return false;
  if (line.back() != '\n') return expected.take(line);
  return expected.is_at_last_byte() || expected.take("\n");
}

// Takes all complete lines of `text`; what is left stays. A '\r' at the end of the text waits for its '\n'.
bool take_lines(Ranks* ranks, std::string* text, bool is_end) {
  std::size_t begin = 0;
  while (begin < text->size()) {
    std::size_t end = text->find_first_of("\r\n", begin);
    if (end == std::string::npos || (!is_end && end + 1 == text->size() && (*text)[end] == '\r')) break;
    if ((*text)[end] == '\r' && end + 1 < text->size() && (*text)[end + 1] == '\n') ++end;
    ++end;
    if (!take_line(ranks, std::string_view(*text).substr(begin, end - begin))) return false;
    begin = end;
  }
  text->erase(0, begin);
  if (is_end && !text->empty()) return std::printf("the last line has no end\n"), false;
  return true;
}

bool check_console(Ranks* ranks, std::size_t slow_bytes, std::size_t bytes_per_second) {
  const auto began = std::chrono::steady_clock::now();
  std::size_t total = 0;
  std::string text;
  std::vector<char> buffer(64 * 1024);
  while (true) {
    const ssize_t size = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (size < 0) return std::printf("read: %s\n", std::strerror(errno)), false;
    text.append(buffer.data(), static_cast<std::size_t>(size));
    if (!take_lines(ranks, &text, size == 0)) return false;
    if (size == 0) return finish(ranks);
    total += static_cast<std::size_t>(size);
    if (total < slow_bytes) {
      const double seconds = static_cast<double>(total) / static_cast<double>(bytes_per_second);
      std::this_thread::sleep_until(began + std::chrono::duration<double>(seconds));
    }
  }
}

bool check_files(Ranks* ranks, const std::string& folder) {
  for (std::size_t rank = 0; rank < ranks->size(); ++rank) {
    const std::string number = (rank < 10 && ranks->size() > 10 ? "0" : "") + std::to_string(rank);
    const std::string path = folder + "/rank." + number + "/stdout";
    std::ifstream file(path, std::ios::binary);
    if (!file) return std::printf("%s is not there\n", path.c_str()), false;
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    if (!(*ranks)[rank].take(bytes)) return false;
  }
  return finish(ranks);
}

unsigned number(const char* word) {
  return static_cast<unsigned>(std::strtoul(word, nullptr, 10));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 5 && std::string_view(argv[1]) == "--files") {
    Ranks ranks = make_ranks(number(argv[3]), number(argv[4]));
    return check_files(&ranks, argv[2]) ? 0 : 1;
  }
  if (argc != 3 && argc != 5) return 2;
  Ranks ranks = make_ranks(number(argv[1]), number(argv[2]));
  return check_console(&ranks, argc == 5 ? number(argv[3]) : 0, argc == 5 ? number(argv[4]) : 1) ? 0 : 1;
}
