// The archive of an environment that may be damaged or forged: nothing is written beside the folder, and memory stays
// bounded. The first byte chooses: odd for a compressed archive, even for what is in one.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>

#include "agent/stage/env_tree.h"
#include "agent/stage/env_unpack.h"

namespace {

namespace fs = std::filesystem;
using namespace muster;

const std::string& root() {
  static const std::string path = [] {
    std::atexit([] { fs::remove_all("/tmp/muster-env-fuzz-" + std::to_string(::getpid())); });
    return "/tmp/muster-env-fuzz-" + std::to_string(::getpid());
  }();
  return path;
}

void require(bool condition) {
  if (!condition) std::abort();
}

void read_entries(std::string_view bytes, agent::EnvTree& tree) {
  auto reader = proto::EnvReader::begin({.begin = [&](const proto::EnvEntry& entry) { return tree.begin(entry); },
                                         .content = [&](std::string_view part) { return tree.content(part); },
                                         .end = [&](const proto::EnvEntry& entry) { return tree.end(entry); }});
  const std::size_t piece = bytes.size() % 61 + 1;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size()))) {
    if (!reader->add(bytes.substr(0, piece)).ok()) return;
  }
  const auto id = reader->finish();
  require(!id.ok() || proto::is_env_id(*id));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string home = root() + "/env";
  fs::create_directories(home);
  {
    agent::EnvTree tree(base::UniqueFd(::open(home.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), home);
    std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
    if ((data[0] & 1U) == 0) {
      read_entries(bytes, tree);
    } else {
      const auto read = [&]() -> base::Result<std::string_view> {
        const std::string_view piece = bytes.substr(0, 61);
        bytes.remove_prefix(piece.size());
        return piece;
      };
      (void)agent::unpack_environment(read, tree);
    }
  }
  require(std::distance(fs::directory_iterator(root()), fs::directory_iterator()) == 1);
  fs::remove_all(root());
  return 0;
}
