(* Inequalities of certificates.md, section 3, and contour.md, sections 2 and 3. *)
From Coq Require Import Reals Lra Psatz.
From Interval Require Import Tactic.
Open Scope R_scope.

Lemma ln_below_line x : 0 < x -> ln x <= x - 1.
Proof.
  intros positive.
  assert (x <= exp (x - 1)) by (pose proof (exp_ineq1_le (x - 1)); lra).
  rewrite <- (ln_exp (x - 1)).
  destruct (Rle_lt_or_eq_dec x (exp (x - 1))) as [less | equal]; trivial.
  - left; apply ln_increasing; trivial.
  - right; congruence.
Qed.

(* The alias terms: 1 - e^-t <= kappa(a) e^(a t), kappa(a) = a^a / (1 + a)^(1 + a). *)
Theorem alias a t : 0 < a -> 1 - exp (- t) <= exp (a * ln a - (1 + a) * ln (1 + a)) * exp (a * t).
Proof.
  intros a_positive.
  rewrite <- exp_plus.
  pose proof (exp_pos (- t)) as w_positive.
  destruct (Rle_or_lt (1 - exp (- t)) 0) as [negative | positive].
  { pose proof (exp_pos (a * ln a - (1 + a) * ln (1 + a) + a * t)); lra. }
  rewrite <- (exp_ln (1 - exp (- t))) at 1 by lra.
  assert (first : ln ((1 - exp (- t)) * (1 + a)) <= (1 - exp (- t)) * (1 + a) - 1).
  { apply ln_below_line; nra. }
  assert (second : ln (exp (- t) * ((1 + a) / a)) <= exp (- t) * ((1 + a) / a) - 1).
  { apply ln_below_line; apply Rmult_lt_0_compat; trivial; apply Rdiv_lt_0_compat; lra. }
  rewrite ln_mult in first by lra.
  rewrite ln_mult in second by (trivial; apply Rdiv_lt_0_compat; lra).
  rewrite ln_exp in second.
  unfold Rdiv in second.
  rewrite ln_mult in second by (try apply Rinv_0_lt_compat; lra).
  rewrite ln_Rinv in second by lra.
  apply Rmult_le_compat_l with (r := a) in second; [ | lra].
  replace (a * (exp (- t) * ((1 + a) * / a) - 1)) with (exp (- t) * (1 + a) - a) in second by (field; lra).
  assert (below : ln (1 - exp (- t)) <= a * ln a - (1 + a) * ln (1 + a) + a * t) by lra.
  destruct below as [less | equal].
  - left; apply exp_increasing; trivial.
  - right; rewrite equal; reflexivity.
Qed.

(* The kernel: |z (z + 1)|^2 >= t^4 for z = c + it, c >= 0. *)
Theorem kernel c t : 0 <= c -> t ^ 4 <= (c ^ 2 + t ^ 2) * ((c + 1) ^ 2 + t ^ 2).
Proof.
  intros.
  assert (0 <= c ^ 2) by nra.
  assert (0 <= (c + 1) ^ 2) by nra.
  assert (0 <= t ^ 2) by nra.
  nra.
Qed.

(* The sum over the rest: 1/k^2 <= 1/(k - 1) - 1/k. *)
Theorem telescope k : 1 < k -> 1 / k ^ 2 <= 1 / (k - 1) - 1 / k.
Proof.
  intros.
  replace (1 / (k - 1) - 1 / k) with (1 / (k * (k - 1))) by (field; lra).
  unfold Rdiv; rewrite !Rmult_1_l.
  apply Rinv_le_contravar; nra.
Qed.

(* The boxes: |sin v| / v <= .21724 for v >= pi. *)
Theorem box v : PI <= v -> Rabs (sin v) <= 0.21724 * v.
Proof.
  intros beyond.
  destruct (Rle_or_lt v 4.604) as [near | far].
  - assert (3.1415 <= v) by (assert (3.1415 <= PI) by interval; lra).
    assert (Rabs (sin v) - 0.21724 * v <= 0) by interval with (i_bisect v, i_autodiff v, i_depth 30).
    lra.
  - apply Rle_trans with 1; [apply Rabs_le; apply SIN_bound | lra].
Qed.
