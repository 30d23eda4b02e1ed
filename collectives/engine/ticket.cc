#include "collectives/engine/ticket.h"

#include <sched.h>

#include <utility>

namespace muster::collectives::inline engine {
namespace {

// Poll for this long before sleeping, because small operations finish before a sleeping thread would wake.
constexpr std::chrono::microseconds kTicketAwake{60};

}  // namespace

void Ticket::finish(base::Status status, Failure failure) {
  {
    const std::lock_guard lock(mutex_);
    status_ = std::move(status);
    failure_ = std::move(failure);
    is_done_.store(true, std::memory_order_release);
  }
  if (page_ != nullptr) status_end(*page_);
  done_.notify_all();
}

std::shared_ptr<Ticket> Ticket::handle_of(std::shared_ptr<Ticket> ticket) {
  Ticket* const pointer = ticket.get();
  return {pointer, [kept = std::move(ticket)](Ticket*) { kept->forget(); }};
}

void Ticket::forget() {
  std::vector<Output> freed;  // freed after the lock is released
  const std::lock_guard lock(mutex_);
  is_forgotten_ = true;
  if (is_done()) freed.swap(outputs_);
}

std::vector<Output> Ticket::release_if_forgotten() {
  const std::lock_guard lock(mutex_);
  return is_forgotten_ ? std::exchange(outputs_, {}) : std::vector<Output>();
}

std::optional<base::Status> Ticket::wait_for(std::chrono::milliseconds time) {
  const auto end_awake = std::chrono::steady_clock::now() + std::min<std::chrono::nanoseconds>(kTicketAwake, time);
  while (!is_done() && std::chrono::steady_clock::now() < end_awake) sched_yield();
  std::unique_lock lock(mutex_);
  if (!done_.wait_for(lock, time, [this] { return is_done(); })) return std::nullopt;
  return status_;
}

}  // namespace muster::collectives::engine
