#include "runner/terminal_progress.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <chrono>

#include "runner/environment.h"
#include "runner/report/number_format.h"

namespace gptqb {
namespace {

constexpr double kSecondsBetweenDraws = 0.1;
constexpr size_t kColumns = 100;

// Bytes that tensors hold on the first GPUs; 0 before anything was put there.
int64_t device_bytes() {
  auto* allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(c10::DeviceType::CUDA));
  if (!allocator || !allocator->initialized()) return 0;
  return allocator->getDeviceStats(0).allocated_bytes[0].current;
}

std::string rate_text(double rate) {
  if (rate >= 1) return significant_text(rate, 3) + "/s";
  return significant_text(1 / rate, 3) + " s each";
}

}  // namespace

std::string memory_text() {
  std::string text = bytes_text(static_cast<double>(resident_bytes()));
  const int64_t device = at::hasCUDA() ? device_bytes() : 0;
  if (device > 0) text += ", GPU " + bytes_text(static_cast<double>(device));
  return text;
}

double TerminalProgress::steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

TerminalProgress::TerminalProgress(std::ostream& out, bool terminal, std::function<double()> clock,
                                   std::function<std::string()> memory)
    : out_(out), terminal_(terminal), clock_(std::move(clock)), memory_(std::move(memory)) {}

TerminalProgress::~TerminalProgress() { erase(); }

void TerminalProgress::begin(const std::string& what, int64_t total) {
  what_ = what;
  total_ = total;
  done_ = 0;
  started_ = clock_();
  draw();
}

void TerminalProgress::advance(int64_t steps) {
  done_ += steps;
  if (done_ >= total_ || clock_() - drawn_ >= kSecondsBetweenDraws) draw();
}

void TerminalProgress::note(const std::string& line) {
  const bool redraw = shown_;
  erase();
  out_ << line << '\n' << std::flush;
  if (redraw) draw();
}

std::string TerminalProgress::line() const {
  std::string text = what_ + " " + std::to_string(done_) + "/" + std::to_string(total_);
  if (total_ > 0) text += "  " + std::to_string(100 * done_ / total_) + " %";
  const double seconds = clock_() - started_;
  if (done_ > 0 && seconds > 0) {
    const double rate = static_cast<double>(done_) / seconds;
    text += "  " + rate_text(rate);
    if (done_ < total_)
      text += "  " + duration_text(static_cast<double>(total_ - done_) / rate) + " left";
  }
  return (text + "  " + memory_()).substr(0, kColumns);
}

void TerminalProgress::draw() {
  if (!terminal_) return;
  drawn_ = clock_();
  // Carriage return, text, and "erase to the end of the line" in case the text before was longer.
  out_ << '\r' << line() << "\x1b[K" << std::flush;
  shown_ = true;
}

void TerminalProgress::erase() {
  if (!shown_) return;
  out_ << "\r\x1b[K" << std::flush;
  shown_ = false;
}

}  // namespace gptqb
