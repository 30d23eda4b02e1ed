// PMI-1's name service (MPI_Publish_name of MPICH and its kind) for the ranks of one job on this host: names lie in the
// job's keys, so that all its hosts find them, and go with the job.
//
// Loop thread only; owned by the PmiServer. Loop and keys outlive it. Two ranks of different hosts that publish the
// same name at the same moment may both succeed; the later port stays.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "agent/pmi/pmi_line.h"
#include "base/loop.h"
#include "base/status.h"
#include "rendezvous/horovod_keys.h"

namespace muster::agent::inline pmi {

class PmiNames {
 public:
  // A whole line for the rank; from the loop, never from within take().
  using Answer = std::function<void(int rank, const std::string& line)>;

  PmiNames(base::Loop& loop, rendezvous::HorovodKeys& keys, Answer answer)
      : loop_(loop), keys_(keys), answer_(std::move(answer)) {}

  // False: the command is none of names. Otherwise one answer follows, unless this is destroyed first.
  bool take(int rank, const PmiCommand& command);

 private:
  using Found = std::function<void(const base::Result<rendezvous::HorovodValue>&)>;

  void publish(int rank, const std::string& service, const std::string& port);
  void look_up(int rank, const std::string& service);
  void unpublish(int rank, const std::string& service);
  void get(const std::string& service, Found found);
  std::function<void(base::Status)> answer_of_keys(int rank, const char* result);
  void answer(int rank, const std::string& line);

  base::Loop& loop_;
  rendezvous::HorovodKeys& keys_;
  const Answer answer_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace muster::agent::pmi
