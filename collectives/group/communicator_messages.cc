// Sends and receives of a communicator: argument checks, and what Messages needs from it.
#include <utility>

#include "collectives/group/communicator.h"

namespace muster::collectives::inline group {
namespace {

std::shared_ptr<Request> refused(const base::Status& why) {
  auto request = std::make_shared<Request>();
  request->finish(why);
  return request;
}

}  // namespace

// The limit on names leaves room for the "~" (communicator_name.cc).
std::string Communicator::name_of_message_links() const {
  return name_ + "~";
}

base::Result<Messages*> Communicator::messages() {
  const std::lock_guard lock(messages_mutex_);
  if (messages_ == nullptr) {
    auto links = std::make_unique<PeerLinks>(*world_, *team_, members_, local_members_, name_of_message_links(), rank_,
                                             policy_, RingUse::kMessages);
    MessageOwner owner{[this](const Failure& failure) { return end_with(add_cause(failure)); },
                       [this](int rank) { return how_left(rank); }};
    MUSTER_ASSIGN_OR_RETURN(messages_, Messages::create(std::move(links), std::move(owner)));
  }
  return messages_.get();
}

std::string Communicator::how_left(int rank) const {
  for (std::size_t local = 0; local < local_members_.size(); ++local) {
    if (local_members_[local] != rank) continue;
    if (team_->segment().lane(static_cast<int>(local)).left.load() != 0) return "has closed its communicator";
  }
  const auto end = world_->end_of(world_rank(rank));
  return end ? end->cause : "";
}

base::Result<Call> Communicator::message_call(std::size_t count, DType type, int peer, int tag) const {
  if (peer < 0 || peer >= size() || peer == rank_) {
    return base::invalid_argument("rank {} of communicator {} cannot send to or receive from rank {}", rank_, name_,
                                  peer);
  }
  if (tag < 0) return base::invalid_argument("tag {}: tags begin at 0", tag);
  MUSTER_RETURN_IF_ERROR(ended());
  return Call{.count = count, .root = tag, .op = Op::kSend, .type = type};
}

base::Status Communicator::send(const void* data, std::size_t count, DType type, int to, int tag) {
  MUSTER_ASSIGN_OR_RETURN(const Call call, message_call(count, type, to, tag));
  MUSTER_ASSIGN_OR_RETURN(Messages* const messages, this->messages());
  return messages->send(to, call, {static_cast<const std::byte*>(data), count * size_of(type)});
}

base::Status Communicator::receive(void* data, std::size_t count, DType type, int from, int tag) {
  MUSTER_ASSIGN_OR_RETURN(const Call call, message_call(count, type, from, tag));
  MUSTER_ASSIGN_OR_RETURN(Messages* const messages, this->messages());
  return messages->receive(from, call, {static_cast<std::byte*>(data), count * size_of(type)});
}

std::shared_ptr<Request> Communicator::start_send(const void* data, std::size_t count, DType type, int to, int tag) {
  const auto call = message_call(count, type, to, tag);
  if (!call.ok()) return refused(call.status());
  const auto messages = this->messages();
  if (!messages.ok()) return refused(messages.status());
  return (*messages)->start_send(to, *call, {static_cast<const std::byte*>(data), count * size_of(type)});
}

std::shared_ptr<Request> Communicator::start_receive(void* data, std::size_t count, DType type, int from, int tag) {
  const auto call = message_call(count, type, from, tag);
  if (!call.ok()) return refused(call.status());
  const auto messages = this->messages();
  if (!messages.ok()) return refused(messages.status());
  return (*messages)->start_receive(from, *call, {static_cast<std::byte*>(data), count * size_of(type)});
}

}  // namespace muster::collectives::group
