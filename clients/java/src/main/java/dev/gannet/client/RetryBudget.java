package dev.gannet.client;

/**
 * Bounds retries and hedges together: {@code percent} of the requests, plus {@code burst}. It is a token bucket that
 * holds at most {@code burst} tokens. Each request adds {@code percent / 100} of a token, and each retry or hedge takes
 * one. Without a token, a failed request is not repeated, and a slow one is not hedged.
 */
public record RetryBudget(double percent, int burst) {
    /** The state of a budget. Its caller holds the lock of the limiter. */
    static final class Bucket {
        private final double share;
        private final double burst;
        private double tokens;

        Bucket(RetryBudget budget) {
            share = budget.percent / 100;
            burst = budget.burst;
            tokens = burst;
        }

        /** Counts one request. */
        void add() {
            if (tokens < burst) {
                tokens = Math.min(burst, tokens + share);
            }
        }

        /** Takes a token, and returns false if there is none. */
        boolean take() {
            // The sum of many shares is inexact: ten of 0.1 are slightly less than 1.
            if (tokens < 1 - 1e-9) {
                return false;
            }
            tokens--;
            return true;
        }
    }
}
