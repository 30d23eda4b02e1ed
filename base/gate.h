// A gate makes callbacks that come late do nothing: a wrapped function runs only while the gate is open. The gate
// closes when its owner is destroyed.
//
// Owner: the object that the callbacks use. Declare the gate as the last member, so that it closes before the members
// that a callback uses are destroyed. If other threads of the owner make passes, declare it before those threads.
// Thread: call wrapped functions and passes on the owner's thread only, which is usually the loop thread. Any thread
// may make, copy or drop them while the gate is neither closed nor destroyed. To call one, it posts to the loop.
// A gate does not keep its owner alive. A callback that may destroy the owner must not use the owner afterwards.
//
//   class Reader {
//     void read() { store_.ask(gate_.wrap([this](const Answer& answer) { last_ = answer; })); }
//     Answer last_;
//     base::Gate gate_;
//   };
#pragma once

#include <functional>
#include <memory>
#include <utility>

namespace muster::base {

class Gate {
 public:
  // Shows whether the gate is still open.
  class Pass {
   public:
    explicit operator bool() const { return !token_.expired(); }

   private:
    friend class Gate;
    explicit Pass(const std::shared_ptr<char>& token) : token_(token) {}
    std::weak_ptr<char> token_;
  };

  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  Pass pass() const { return Pass(token_); }

  template <typename Function>
  auto wrap(Function function) const {
    return [pass = pass(), function = std::move(function)](auto&&... arguments) {
      if (pass) std::invoke(function, std::forward<decltype(arguments)>(arguments)...);
    };
  }

  // Closes the gate for good: passes made before and afterwards are void.
  void close() { token_.reset(); }
  // Voids all passes made so far. Later passes are valid.
  void reset() { token_ = std::make_shared<char>(); }

 private:
  std::shared_ptr<char> token_ = std::make_shared<char>();
};

}  // namespace muster::base
