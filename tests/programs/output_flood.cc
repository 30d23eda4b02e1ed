// output_flood LINES: writes the OutputStream of its rank (MUSTER_RANK) to stdout as fast as it is taken.
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/programs/output_stream.h"

namespace {

bool write_all(const std::string& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t size = ::write(STDOUT_FILENO, bytes.data() + done, bytes.size() - done);
    if (size < 0) return false;
    done += static_cast<std::size_t>(size);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const char* const rank = std::getenv("MUSTER_RANK");
  if (argc != 2 || rank == nullptr) return 2;
  OutputStream stream(static_cast<unsigned>(std::atoi(rank)), static_cast<unsigned>(std::atoi(argv[1])));
  std::string line;
  std::string pending;
  while (stream.next(&line)) {
    pending += line;
    // Not a multiple of anything: writes end in the middle of lines.
    constexpr std::size_t kPending = 10007;
    if (pending.size() < kPending) continue;
    const std::string kept = pending.substr(kPending);
    pending.resize(kPending);
    if (!write_all(pending)) return 1;
    pending = kept;
  }
  return write_all(pending) ? 0 : 1;
}
