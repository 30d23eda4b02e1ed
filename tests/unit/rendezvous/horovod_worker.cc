#include "tests/unit/rendezvous/horovod_worker.h"

#include <fmt/format.h>

#include <utility>

namespace muster::rendezvous {
namespace {

constexpr std::size_t kBlockBytes = 136;  // a sockaddr_storage and a ssize_t

std::string host_of(const HorovodSeat& seat) {
  return "gethostname-of-" + seat.host_name;
}

}  // namespace

std::vector<HorovodSeat> horovod_seats(std::span<const HorovodHost> hosts) {
  const HorovodPlan plan = make_horovod_plan(hosts);
  std::vector<HorovodSeat> seats;
  std::vector<std::size_t> cross;  // by local rank: how many hosts so far
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    for (std::size_t local = 0; local < hosts[host].local_size; ++local) {
      if (local == cross.size()) cross.push_back(0);
      seats.push_back({host, hosts[host].name, seats.size(), plan.finishers.at("global"), local, hosts[host].local_size,
                       cross[local]++, plan.finishers.at("cross_" + std::to_string(local))});
    }
  }
  return seats;
}

HorovodWorker::HorovodWorker(HorovodSeat seat, int round, const std::string& suffix)
    : seat_(std::move(seat)),
      round_(round),
      scopes_({{"global" + suffix, seat_.rank, seat_.size},
               {"local_" + seat_.host_name + suffix, seat_.local_rank, seat_.local_size},
               {"cross_" + std::to_string(seat_.local_rank) + suffix, seat_.cross_rank, seat_.cross_size}}) {
  go(Step::kPutHint);
}

void HorovodWorker::go(Step step) {
  step_ = step;
  wants_ = step == Step::kBarrier ? Wants::kBarrier : Wants::kRequest;
  const std::string own = std::to_string(here().rank);
  switch (step) {
    case Step::kPutHint:
      return ask("PUT", "rank_" + own, host_of(seat_));
    case Step::kGetHint:
      return ask("GET", "rank_" + std::to_string(peer_));
    case Step::kPut:
      return ask("PUT", own, value());
    case Step::kPoll:
    case Step::kRead:
      return ask("GET", std::to_string(peer_));
    case Step::kBarrier:
      return;
    case Step::kDelete:
      return ask("DELETE", own);
  }
}

void HorovodWorker::ask(std::string_view verb, const std::string& key, const std::string& body) {
  request_ = fmt::format("{} /{}/{} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n{}", verb, here().name,
                         key, body.size(), body);
}

void HorovodWorker::answered(int status, std::string_view body) {
  const bool may_miss = step_ == Step::kGetHint || step_ == Step::kPoll;
  if (status != 200 && !(status == 404 && may_miss && body.empty())) return fail(status, body);
  switch (step_) {
    case Step::kPutHint:
      peer_ = 0;
      return go(here().rank == 0 ? Step::kPut : Step::kGetHint);
    case Step::kGetHint:
      return go(++peer_ < here().rank ? Step::kGetHint : Step::kPut);
    case Step::kPut:
      peer_ = 0;
      return next_peer();
    case Step::kPoll:
      if (status == 200) return go(Step::kRead);
      wants_ = Wants::kPause;
      return;
    case Step::kRead:
      check_block(body);
      ++peer_;
      return next_peer();
    case Step::kDelete:
      if (++scope_ < scopes_.size()) return go(Step::kPutHint);
      wants_ = Wants::kNothing;
      return;
    case Step::kBarrier:
      return;
  }
}

void HorovodWorker::next_peer() {
  if (!problem_.empty()) return;
  if (peer_ == here().rank) ++peer_;
  go(peer_ < here().size ? Step::kPoll : Step::kBarrier);
}

void HorovodWorker::resumed() {
  if (step_ == Step::kBarrier) return go(Step::kDelete);
  wants_ = Wants::kRequest;
}

void HorovodWorker::fail(int status, std::string_view body) {
  problem_ = fmt::format("rank {}, {}, round {}: {} bytes with status {} for {}", seat_.rank, here().name, round_,
                         body.size(), status, request_.substr(0, request_.find('\r')));
  wants_ = Wants::kNothing;
}

void HorovodWorker::check_block(std::string_view body) {
  const std::size_t reader = here().rank;
  const std::size_t index = reader > peer_ ? reader - 1 : reader;
  if (body.size() != (here().size - 1) * kBlockBytes ||
      body.substr(index * kBlockBytes, kBlockBytes) != block(peer_, reader)) {
    fail(200, body);
  }
}

std::string HorovodWorker::block(std::size_t writer, std::size_t reader) const {
  std::string bytes = fmt::format("{} {} {} {}", here().name, round_, writer, reader);
  bytes.resize(kBlockBytes);  // with NUL bytes, as addresses are
  return bytes;
}

std::string HorovodWorker::value() const {
  std::string bytes;
  for (std::size_t reader = 0; reader < here().size; ++reader) {
    if (reader != here().rank) bytes += block(here().rank, reader);
  }
  return bytes;
}

}  // namespace muster::rendezvous
