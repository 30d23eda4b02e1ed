// The local agent file that is sent to hosts: its bytes, hash and machine. Immutable after load.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::launcherd::inline bootstrap {

// The name of an ELF machine as `uname -m` has it ("x86_64"); empty if `head` is no 64-bit little-endian ELF file.
// Pure.
std::string elf_machine(std::string_view head);

// Whether two names mean one machine (amd64 is x86_64, arm64 is aarch64).
bool is_same_machine(std::string_view a, std::string_view b);

class AgentImage {
 public:
  // Reads the head only; NOT_FOUND or INVALID_ARGUMENT if it cannot be an agent.
  static base::Result<AgentImage> open(const std::string& path);

  const std::string& machine() const { return machine_; }

  struct Content {
    std::string bytes;
    std::string sha256;  // lower-case hex
  };
  // All of it: only when a host lacks it. Any thread; the caller keeps it. In memory once, however many callers there
  // are at a time.
  base::Result<std::shared_ptr<const Content>> load() const;

 private:
  struct Shared {
    std::mutex mutex;
    std::weak_ptr<const Content> content;
  };
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::string path_;
  std::string machine_;
};

}  // namespace muster::launcherd::bootstrap
