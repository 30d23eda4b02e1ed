// AgentImage is the local agent file that the launcher sends to hosts: its bytes, its SHA-256 hash and its machine.
// Beside the agent may lie its packed form: muster-unpack and <agent>.zst (docs/adr/0064).
// Thread: an AgentImage does not change after open(), so any thread may use it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::launcherd::inline bootstrap {

// Returns the name of an ELF file's machine as `uname -m` prints it ("x86_64"). Empty if `head` does not begin a
// 64-bit little-endian ELF file. Pure.
std::string elf_machine(std::string_view head);

// True if both names mean the same machine: amd64 is x86_64, arm64 is aarch64.
bool is_same_machine(std::string_view a, std::string_view b);

class AgentImage {
 public:
  // Reads only the ELF header. NOT_FOUND if the file does not exist. INVALID_ARGUMENT if the file is not a 64-bit
  // program.
  static base::Result<AgentImage> open(const std::string& path);

  const std::string& machine() const { return machine_; }

  struct Content {
    std::string bytes;
    std::string sha256;  // lower-case hex
  };
  // Reads and hashes the whole file, so call it only if a host lacks the agent. Any thread may call it.
  // The caller owns the result. Calls at the same time share one copy in memory.
  base::Result<std::shared_ptr<const Content>> load() const;

  // The size of muster-unpack in bytes. 0 if this agent has no packed form.
  std::uint64_t unpacker_size() const { return unpacker_size_; }

  struct Packed {
    std::string unpacker;    // the program that the host runs first
    std::string bytes;       // the compressed agent
    std::string sha256;      // of the agent, lower-case hex
    std::uint64_t size = 0;  // of the agent
  };
  // Reads the packed form, and hashes the agent. Otherwise like load(). NOT_FOUND if it has no packed form.
  base::Result<std::shared_ptr<const Packed>> load_packed() const;

 private:
  struct Shared {
    std::mutex mutex;
    std::weak_ptr<const Content> content;
    std::weak_ptr<const Packed> packed;
  };
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::string path_;
  std::string machine_;
  std::uint64_t unpacker_size_ = 0;
};

}  // namespace muster::launcherd::bootstrap
