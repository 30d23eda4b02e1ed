// The rank of bench/output: writes lines to stdout, in blocks as a buffered program does.
//   write_lines [MiB=64] [bytes per line=80]
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

int main(int argc, char** argv) {
  std::size_t left = static_cast<std::size_t>(argc > 1 ? std::atol(argv[1]) : 64) << 20;
  const auto line = static_cast<std::size_t>(std::max(1L, argc > 2 ? std::atol(argv[2]) : 80));
  std::string block;
  while (block.size() < std::size_t{64} * 1024) block += std::string(line - 1, 'x') + '\n';
  while (left > 0) {
    std::size_t from = 0;
    const std::size_t size = std::min(left, block.size());
    while (from < size) {
      const ssize_t count = ::write(STDOUT_FILENO, block.data() + from, size - from);
      if (count <= 0) return 1;
      from += static_cast<std::size_t>(count);
    }
    left -= size;
  }
  return 0;
}
