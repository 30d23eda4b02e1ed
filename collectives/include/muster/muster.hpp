// libmuster for C++: owners and types around muster.h. Everything is inline, so the ABI is C's. See muster.h for the
// meaning of each call, its threads and its buffers.
//
//   muster::World world = muster::World::join().value();
//   muster::Communicator all = world.communicator();
//   std::vector<float> data(1000, 1);
//   if (muster::Status done = all.allreduce(std::span(data), muster::Op::sum); !done.ok())
//   puts(done.message().c_str());
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "muster.h"

namespace muster {

// The result of a call: a code, a message and the rank that caused the failure. The default is ok.
class [[nodiscard]] Status {
 public:
  Status() = default;
  // Takes ownership of the error.
  Status(muster_code code, muster_error* error) : code_(code) {
    if (error == nullptr) return;
    message_ = muster_error_message(error);
    rank_ = muster_error_rank(error);
    host_ = muster_error_host(error);
    muster_error_free(error);
  }

  bool ok() const { return code_ == MUSTER_OK; }
  muster_code code() const { return code_; }
  const std::string& message() const { return message_; }
  int rank() const { return rank_; }  // the rank of the world that ended or made the mistake; -1 if none
  const std::string& host() const { return host_; }

 private:
  muster_code code_ = MUSTER_OK;
  std::string message_;
  int rank_ = -1;
  std::string host_;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)
  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  // Call it only on an ok result.
  T& value() & { return *value_; }
  T&& value() && { return std::move(*value_); }

 private:
  std::optional<T> value_;
  Status status_;
};

enum class Op { sum = MUSTER_SUM, avg = MUSTER_AVG, min = MUSTER_MIN, max = MUSTER_MAX, prod = MUSTER_PROD };

// The muster_dtype of a C++ type. Pass 16-bit floats as muster::Float16 and muster::Bfloat16.
struct Float16 {
  std::uint16_t bits = 0;
};
struct Bfloat16 {
  std::uint16_t bits = 0;
};
template <typename T>
muster_dtype dtype_of = T::is_no_element_type_of_libmuster;  // fails to compile where it is used
template <typename T>
inline constexpr muster_dtype dtype_of<const T> = dtype_of<T>;
template <>
inline constexpr muster_dtype dtype_of<Float16> = MUSTER_FLOAT16;
template <>
inline constexpr muster_dtype dtype_of<Bfloat16> = MUSTER_BFLOAT16;
template <>
inline constexpr muster_dtype dtype_of<float> = MUSTER_FLOAT32;
template <>
inline constexpr muster_dtype dtype_of<double> = MUSTER_FLOAT64;
template <>
inline constexpr muster_dtype dtype_of<std::int8_t> = MUSTER_INT8;
template <>
inline constexpr muster_dtype dtype_of<std::uint8_t> = MUSTER_UINT8;
template <>
inline constexpr muster_dtype dtype_of<std::int16_t> = MUSTER_INT16;
template <>
inline constexpr muster_dtype dtype_of<std::int32_t> = MUSTER_INT32;
template <>
inline constexpr muster_dtype dtype_of<std::int64_t> = MUSTER_INT64;
template <>
inline constexpr muster_dtype dtype_of<bool> = MUSTER_BOOL;

// An operation in progress. Do not touch its buffers until it is done. Freeing a request does not cancel the operation.
class Request {
 public:
  explicit Request(muster_request* request) : request_(request, &muster_request_free) {}
  bool test() const {
    int done = 0;
    muster_test(request_.get(), &done);
    return done != 0;
  }
  Status wait() const { return wait_for(-1); }
  // Returns MUSTER_TIMEOUT without a message if it is not done yet.
  Status wait_for(double seconds) const {
    muster_error* error = nullptr;
    const muster_code code = muster_wait(request_.get(), seconds, &error);
    return {code, error};
  }

 private:
  std::unique_ptr<muster_request, decltype(&muster_request_free)> request_;
};

// Holds `size()` elements for this rank, in memory that all ranks of the host have mapped. Free it before its
// communicator.
template <typename T>
class Buffer {
 public:
  Buffer(muster_comm* comm, void* data, std::size_t size) : comm_(comm), data_(static_cast<T*>(data)), size_(size) {}
  Buffer(Buffer&& other) noexcept
      : comm_(other.comm_), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(comm_, other.comm_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) muster_buffer_free(comm_, data_, nullptr);
  }
  T* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::span<T> span() const { return {data_, size_}; }

 private:
  muster_comm* comm_;
  T* data_;
  std::size_t size_;
};

// A group of ranks. A copy refers to the same group.
class Communicator {
 public:
  // Does not own `comm`.
  static Communicator borrowed(muster_comm* comm) {
    return Communicator(std::shared_ptr<muster_comm>(comm, [](muster_comm*) {}));
  }
  static Communicator owned(muster_comm* comm) {
    return Communicator(std::shared_ptr<muster_comm>(comm, &muster_comm_free));
  }

  int rank() const { return muster_comm_rank(get()); }
  int size() const { return muster_comm_size(get()); }
  int local_rank() const { return muster_comm_local_rank(get()); }
  int local_size() const { return muster_comm_local_size(get()); }
  int hosts() const { return muster_comm_hosts(get()); }
  int world_rank(int rank) const { return muster_comm_world_rank(get(), rank); }  // -1 if `rank` is out of range
  muster_comm* get() const { return comm_.get(); }

  // An ok result holds nullopt if this rank gave a negative color.
  Result<std::optional<Communicator>> split(int color, int key) const {
    muster_comm* made = nullptr;
    muster_error* error = nullptr;
    const muster_code code = muster_comm_split(get(), color, key, &made, &error);
    if (code != MUSTER_OK) return Status(code, error);
    return made == nullptr ? std::optional<Communicator>() : std::optional(owned(made));
  }
  Result<Communicator> group(std::span<const int> ranks) const {
    return make([&](muster_comm** made, muster_error** error) {
      return muster_comm_group(get(), ranks.data(), static_cast<int>(ranks.size()), made, error);
    });
  }
  Result<Communicator> shrink() const {
    return make([&](muster_comm** made, muster_error** error) { return muster_comm_shrink(get(), made, error); });
  }
  template <typename T>
  Result<Buffer<T>> allocate(std::size_t count) const {
    void* data = nullptr;
    muster_error* error = nullptr;
    const std::size_t bytes = count > SIZE_MAX / sizeof(T) ? SIZE_MAX : count * sizeof(T);  // SIZE_MAX is refused
    const muster_code code = muster_buffer_alloc(get(), bytes, &data, &error);
    if (code != MUSTER_OK) return Status(code, error);
    return Buffer<T>(get(), data, count);
  }

  Status barrier() const {
    return call([&](muster_error** error) { return muster_barrier(get(), error); });
  }
  // The operation is in place.
  template <typename T>
  Status allreduce(std::span<T> data, Op op, double prescale = 1, double postscale = 1) const {
    return allreduce(std::span<const T>(data), data.data(), op, prescale, postscale);
  }
  template <typename T>
  Status allreduce(std::span<const T> in, T* out, Op op, double prescale = 1, double postscale = 1) const {
    return call([&](muster_error** error) {
      return muster_allreduce_scaled(get(), in.data(), out, in.size(), dtype_of<T>, static_cast<muster_op>(op),
                                     prescale, postscale, error);
    });
  }
  // Only the root uses `out`.
  template <typename T>
  Status reduce(std::span<const T> in, T* out, Op op, int root) const {
    return call([&](muster_error** error) {
      return muster_reduce(get(), in.data(), out, in.size(), dtype_of<T>, static_cast<muster_op>(op), root, error);
    });
  }
  // `in` has size() * out.size() elements.
  template <typename T>
  Status reduce_scatter(const T* in, std::span<T> out, Op op) const {
    return call([&](muster_error** error) {
      return muster_reduce_scatter(get(), in, out.data(), out.size(), dtype_of<T>, static_cast<muster_op>(op), error);
    });
  }
  // counts[size()], the same on all ranks. `in` has their sum, `out` has counts[rank()] elements.
  template <typename T>
  Status reduce_scatterv(const T* in, T* out, std::span<const std::size_t> counts, Op op) const {
    return call([&](muster_error** error) {
      return muster_reduce_scatterv(get(), in, out, counts.data(), dtype_of<T>, static_cast<muster_op>(op), error);
    });
  }
  template <typename T>
  Status broadcast(std::span<T> data, int root) const {
    return call([&](muster_error** error) {
      return muster_broadcast(get(), data.data(), data.size(), dtype_of<T>, root, error);
    });
  }
  // `out` has size() * in.size() elements.
  template <typename T>
  Status allgather(std::span<const T> in, T* out) const {
    return call(
        [&](muster_error** error) { return muster_allgather(get(), in.data(), out, in.size(), dtype_of<T>, error); });
  }
  // counts[size()], the same on all ranks. `in` has counts[rank()] elements, `out` has their sum.
  template <typename T>
  Status allgatherv(const T* in, T* out, std::span<const std::size_t> counts) const {
    return call(
        [&](muster_error** error) { return muster_allgatherv(get(), in, out, counts.data(), dtype_of<T>, error); });
  }
  // `out` has size() * in.size() elements on the root, and is unused elsewhere.
  template <typename T>
  Status gather(std::span<const T> in, T* out, int root) const {
    return call([&](muster_error** error) {
      return muster_gather(get(), in.data(), out, in.size(), dtype_of<T>, root, error);
    });
  }
  // `in` has size() * out.size() elements on the root, and is unused elsewhere.
  template <typename T>
  Status scatter(const T* in, std::span<T> out, int root) const {
    return call([&](muster_error** error) {
      return muster_scatter(get(), in, out.data(), out.size(), dtype_of<T>, root, error);
    });
  }
  // Both have size() * count elements.
  template <typename T>
  Status alltoall(const T* in, T* out, std::size_t count) const {
    return call([&](muster_error** error) { return muster_alltoall(get(), in, out, count, dtype_of<T>, error); });
  }
  // Sends send_counts[r] elements to rank r and receives recv_counts[r] from it.
  template <typename T>
  Status alltoallv(const T* in, std::span<const std::size_t> send_counts, T* out,
                   std::span<const std::size_t> recv_counts) const {
    return call([&](muster_error** error) {
      return muster_alltoallv(get(), in, send_counts.data(), out, recv_counts.data(), dtype_of<T>, error);
    });
  }
  template <typename T>
  Status send(std::span<T> data, int to, int tag = 0) const {
    return call([&](muster_error** error) {
      return muster_send(get(), data.data(), data.size(), dtype_of<T>, to, tag, error);
    });
  }
  template <typename T>
  Status recv(std::span<T> data, int from, int tag = 0) const {
    return call([&](muster_error** error) {
      return muster_recv(get(), data.data(), data.size(), dtype_of<T>, from, tag, error);
    });
  }

  // The following calls do the same as those above, without waiting. Do not touch the buffers until the request is
  // done. Arrays of counts may be freed when a call returns.
  Result<Request> start_barrier() const {
    return start(
        [&](muster_request** request, muster_error** error) { return muster_ibarrier(get(), request, error); });
  }
  // The operation is in place.
  template <typename T>
  Result<Request> start_allreduce(std::span<T> data, Op op, double prescale = 1, double postscale = 1) const {
    return start_allreduce(std::span<const T>(data), data.data(), op, prescale, postscale);
  }
  template <typename T>
  Result<Request> start_allreduce(std::span<const T> in, T* out, Op op, double prescale = 1,
                                  double postscale = 1) const {
    return start([&](muster_request** request, muster_error** error) {
      return muster_iallreduce_scaled(get(), in.data(), out, in.size(), dtype_of<T>, static_cast<muster_op>(op),
                                      prescale, postscale, request, error);
    });
  }
  template <typename T>
  Result<Request> start_reduce(std::span<const T> in, T* out, Op op, int root) const {
    return start([&](muster_request** request, muster_error** error) {
      return muster_ireduce(get(), in.data(), out, in.size(), dtype_of<T>, static_cast<muster_op>(op), root, request,
                            error);
    });
  }
  template <typename T>
  Result<Request> start_reduce_scatter(const T* in, std::span<T> out, Op op) const {
    return start([&](muster_request** request, muster_error** error) {
      return muster_ireduce_scatter(get(), in, out.data(), out.size(), dtype_of<T>, static_cast<muster_op>(op), request,
                                    error);
    });
  }
  template <typename T>
  Result<Request> start_reduce_scatterv(const T* in, T* out, std::span<const std::size_t> counts, Op op) const {
    return start([&](muster_request** request, muster_error** error) {
      return muster_ireduce_scatterv(get(), in, out, counts.data(), dtype_of<T>, static_cast<muster_op>(op), request,
                                     error);
    });
  }
  template <typename T>
  Result<Request> start_broadcast(std::span<T> data, int root) const {
    return start([&](muster_request** request, muster_error** error) {
      return muster_ibroadcast(get(), data.data(), data.size(), dtype_of<T>, root, request, error);
    });
  }
  template <typename T>
  Result<Request> start_allgather(std::span<const T> in, T* out) const {
    return start([&](muster_request** request, muster_error** error) {
      return muster_iallgather(get(), in.data(), out, in.size(), dtype_of<T>, request, error);
    });
  }
  template <typename T>
  Result<Request> start_allgatherv(const T* in, T* out, std::span<const std::size_t> counts) const {
    return start([&](muster_request** request, muster_error** error) {
      return muster_iallgatherv(get(), in, out, counts.data(), dtype_of<T>, request, error);
    });
  }
  template <typename T>
  Result<Request> start_gather(std::span<const T> in, T* out, int root) const {
    return start([&](muster_request** request, muster_error** error) {
      return muster_igather(get(), in.data(), out, in.size(), dtype_of<T>, root, request, error);
    });
  }
  template <typename T>
  Result<Request> start_scatter(const T* in, std::span<T> out, int root) const {
    return start([&](muster_request** request, muster_error** error) {
      return muster_iscatter(get(), in, out.data(), out.size(), dtype_of<T>, root, request, error);
    });
  }
  template <typename T>
  Result<Request> start_alltoall(const T* in, T* out, std::size_t count) const {
    return start([&](muster_request** request, muster_error** error) {
      return muster_ialltoall(get(), in, out, count, dtype_of<T>, request, error);
    });
  }
  template <typename T>
  Result<Request> start_alltoallv(const T* in, std::span<const std::size_t> send_counts, T* out,
                                  std::span<const std::size_t> recv_counts) const {
    return start([&](muster_request** request, muster_error** error) {
      return muster_ialltoallv(get(), in, send_counts.data(), out, recv_counts.data(), dtype_of<T>, request, error);
    });
  }
  template <typename T>
  Result<Request> start_send(std::span<T> data, int to, int tag = 0) const {
    return start([&](muster_request** request, muster_error** error) {
      return muster_isend(get(), data.data(), data.size(), dtype_of<T>, to, tag, request, error);
    });
  }
  template <typename T>
  Result<Request> start_recv(std::span<T> data, int from, int tag = 0) const {
    return start([&](muster_request** request, muster_error** error) {
      return muster_irecv(get(), data.data(), data.size(), dtype_of<T>, from, tag, request, error);
    });
  }

 private:
  explicit Communicator(std::shared_ptr<muster_comm> comm) : comm_(std::move(comm)) {}
  template <typename Call>
  Status call(const Call& operation) const {
    muster_error* error = nullptr;
    const muster_code code = operation(&error);
    return {code, error};
  }
  template <typename Start>
  Result<Request> start(const Start& how) const {
    muster_request* request = nullptr;
    muster_error* error = nullptr;
    const muster_code code = how(&request, &error);
    if (code != MUSTER_OK) return Status(code, error);
    return Request(request);
  }
  template <typename Make>
  Result<Communicator> make(const Make& how) const {
    muster_comm* made = nullptr;
    muster_error* error = nullptr;
    const muster_code code = how(&made, &error);
    if (code != MUSTER_OK) return Status(code, error);
    return owned(made);
  }

  std::shared_ptr<muster_comm> comm_;
};

// This process in its job. It must outlive its communicators.
class World {
 public:
  static Result<World> join(double timeout_seconds = 0) {
    muster_options options{};
    options.size = sizeof options;
    options.timeout_seconds = timeout_seconds;
    muster_world* world = nullptr;
    muster_error* error = nullptr;
    const muster_code code = muster_init(&options, &world, &error);
    if (code != MUSTER_OK) return Status(code, error);
    return World(world);
  }
  Communicator communicator() const { return Communicator::borrowed(muster_world_comm(world_.get())); }

 private:
  explicit World(muster_world* world) : world_(world, &muster_finalize) {}
  std::unique_ptr<muster_world, decltype(&muster_finalize)> world_;
};

}  // namespace muster
