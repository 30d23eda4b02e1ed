// Holds streams of the caller's until operations that libmuster's thread does are done, without a host that waits: the
// stream waits for a word of pinned memory, which the device writes behind the operation, or the host when it failed.
//
// Any thread. Outlives no hold: each keeps the gate.
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
  // Its memory (4 KiB) stays the driver's: a stream of the caller's may still have to look at its word, or the device
  // to write one, and freeing may wait for either.
  ~StreamGate() { words_.leave(); }

  // One stream that waits. Lets it go at the latest when it is destroyed.
  class Hold {
   public:
    Hold(std::shared_ptr<StreamGate> gate, std::uint32_t number) : gate_(std::move(gate)), number_(number) {}
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    // When the device has done what `stream` has at this moment.
    base::Status let_go_behind(void* stream);

   private:
    const std::shared_ptr<StreamGate> gate_;
    const std::uint32_t number_;
    bool is_behind_ = false;  // the device writes the word
  };
  // What comes on `stream` from now on waits. RESOURCE_EXHAUSTED: too many do already.
  base::Result<std::shared_ptr<Hold>> hold(void* stream);

 private:
  static constexpr std::uint32_t kWords = 1024;
  explicit StreamGate(std::shared_ptr<const Gpu> gpu) : gpu_(std::move(gpu)) {}
  std::atomic_ref<std::uint32_t> word(std::uint32_t number) const {
    return std::atomic_ref<std::uint32_t>(static_cast<std::uint32_t*>(words_.get())[number % kWords]);
  }

  const std::shared_ptr<const Gpu> gpu_;
  HostMemory words_;  // number n's is done when its word has reached n
  std::atomic<std::uint32_t> last_{0};
  std::array<std::atomic<bool>, kWords> is_used_{};  // also of a word that a device will write too late
};

}  // namespace muster::collectives::device
