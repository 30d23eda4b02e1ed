// Holds the caller's streams until operations of libmuster's thread are done, without blocking the host. A stream waits
// for a word of pinned memory. The device writes that word behind the operation. If the operation failed, the host
// writes it.
//
// Thread: any.
// Lifetime: each hold keeps the gate alive.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/status.h"
#include "collectives/device/gpu.h"

namespace muster::collectives::device {

class StreamGate : public std::enable_shared_from_this<StreamGate> {
 public:
  static base::Result<std::shared_ptr<StreamGate>> make(const std::shared_ptr<const Gpu>& gpu);
  // Leaves its memory (4 KiB) to the driver. A stream of the caller may still wait for its word, or the device may
  // still write one. Freeing the memory may wait for either.
  ~StreamGate() { words_.leave(); }

  // One waiting stream. The destructor releases the stream at the latest.
  class Hold {
   public:
    Hold(std::shared_ptr<StreamGate> gate, std::uint32_t number) : gate_(std::move(gate)), number_(number) {}
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    // Releases the stream when the device has done the work that `stream` has now.
    base::Status release_behind(void* stream);

   private:
    const std::shared_ptr<StreamGate> gate_;
    const std::uint32_t number_;
    bool is_behind_ = false;  // true if the device writes the word
  };
  // Makes later work on `stream` wait. RESOURCE_EXHAUSTED if too many streams wait.
  base::Result<std::shared_ptr<Hold>> hold(void* stream);

 private:
  static constexpr std::uint32_t kWords = 1024;
  explicit StreamGate(std::shared_ptr<const Gpu> gpu) : gpu_(std::move(gpu)) {}
  std::atomic_ref<std::uint32_t> word(std::uint32_t number) const {
    return std::atomic_ref<std::uint32_t>(static_cast<std::uint32_t*>(words_.get())[number % kWords]);
  }

  const std::shared_ptr<const Gpu> gpu_;
  HostMemory words_;  // the hold with number n ends when its word reaches n
  std::atomic<std::uint32_t> last_{0};
  std::array<std::atomic<bool>, kWords> is_used_{};  // also true for a word that the device will write too late
};

}  // namespace muster::collectives::device
